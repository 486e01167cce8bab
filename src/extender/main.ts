// The extender as a process: configuration, start, and an orderly end at a signal.
import { createLogger } from "../platform/process/log.ts";
import { stopAll, untilSignal } from "../platform/process/shutdown.ts";
import { readConfig } from "./config.ts";
import { startExtender } from "./start-extender.ts";

export async function runExtender(args: readonly string[]): Promise<void> {
  const config = readConfig(args);
  const log = createLogger("extender", config.logLevel);
  const parts = await startExtender(config, log);
  await untilSignal();
  await stopAll(parts, log);
}
