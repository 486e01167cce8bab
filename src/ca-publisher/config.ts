// What the ca-publisher is given from outside: flags, and the environment for the pod's cluster and for faults. It has no port. The only
// file of this process that reads either.

import {
  CONNECTION_FLAGS,
  type ConnectionSettings,
  readConnectionSettings,
} from "../platform/kube/client/kube-config.ts";
import { type FaultSettings, parsePlantedFaults } from "../platform/process/effects/effects.ts";
import { oneOfFlag, ownNamespace, PROCESS_FLAGS, readFlags } from "../platform/process/flags.ts";
import { LOG_LEVELS, type LogLevel } from "../platform/process/log.ts";
import { WEBHOOKS, type WebhookName } from "./publisher.ts";

export interface CaPublisherConfig extends FaultSettings {
  readonly connection: ConnectionSettings;
  /** Where the Secret of the webhook's certificate is. */
  readonly namespace: string;
  /** Whose CAs it publishes. */
  readonly webhook: WebhookName;
  readonly logLevel: LogLevel;
}

const FLAGS = {
  ...CONNECTION_FLAGS,
  "log-level": PROCESS_FLAGS["log-level"],
  webhook: { type: "string", default: "pods" },
} as const;

/** Throws with a sentence for the user on anything it cannot read. */
export function readConfig(args: readonly string[], environment: NodeJS.ProcessEnv = process.env): CaPublisherConfig {
  const values = readFlags(FLAGS, args);
  return {
    connection: readConnectionSettings(values, environment),
    namespace: ownNamespace(environment),
    webhook: oneOfFlag("webhook", values.webhook, WEBHOOKS),
    logLevel: oneOfFlag("log-level", values["log-level"], LOG_LEVELS),
    faults: parsePlantedFaults(environment["TIDEMARK_FAULT"]),
    effectLog: environment["TIDEMARK_EFFECT_LOG"],
  };
}
