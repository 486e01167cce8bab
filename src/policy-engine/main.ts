// The policy-engine as a process: configuration, start, and an orderly end at a signal.
import { createLogger } from "../platform/process/log.ts";
import { stopAll, untilSignal } from "../platform/process/shutdown.ts";
import { readConfig } from "./config.ts";
import { startPolicyEngine } from "./start-policy-engine.ts";

export async function runPolicyEngine(args: readonly string[]): Promise<void> {
  const config = readConfig(args);
  const log = createLogger("policy-engine", config.logLevel);
  const { httpPort, samplesAt, policyWebhookPort, parts } = await startPolicyEngine(config, log);
  log.info({ httpPort, samplesAt, policyWebhookPort }, "serving");
  await untilSignal();
  await stopAll(parts, log);
}
