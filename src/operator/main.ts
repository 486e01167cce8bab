// The operator as a process: configuration, start, and an orderly end at a signal.
import { createLogger } from "../platform/process/log.ts";
import { stopAll, untilSignal } from "../platform/process/shutdown.ts";
import { readConfig } from "./config.ts";
import { startOperator } from "./start-operator.ts";

export async function runOperator(args: readonly string[]): Promise<void> {
  const config = readConfig(args);
  const log = createLogger("operator", config.logLevel);
  const operator = await startOperator(config, log);
  log.info({ httpPort: operator.httpPort, csiSocket: config.csiSocket }, "serving");
  await untilSignal();
  await stopAll(operator.parts, log);
}
