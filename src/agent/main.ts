// The agent as a process: configuration, start, and an orderly end at a signal.
import { createLogger } from "../platform/process/log.ts";
import { stopAll, untilSignal } from "../platform/process/shutdown.ts";
import { readConfig } from "./config.ts";
import { startAgent } from "./start-agent.ts";

export async function runAgent(args: readonly string[]): Promise<void> {
  const config = readConfig(args);
  const log = createLogger("agent", config.logLevel);
  const parts = await startAgent(config, log);
  await untilSignal();
  await stopAll(parts, log);
}
