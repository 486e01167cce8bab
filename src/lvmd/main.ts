// The process that runs LVM: flags → wiring → signal. Volumes stay as they are when it ends.
import { createLogger } from "../platform/process/log.ts";
import { stopAll, untilSignal } from "../platform/process/shutdown.ts";
import { readConfig } from "./config.ts";
import { startLvmd } from "./start-lvmd.ts";

export async function runLvmd(args: readonly string[]): Promise<void> {
  const config = readConfig(args);
  const log = createLogger("lvmd", config.logLevel);
  const started = await startLvmd(config, log);
  await untilSignal();
  await stopAll(started, log);
}
