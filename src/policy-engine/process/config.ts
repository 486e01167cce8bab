// What the policy-engine is told from outside: flags, and the environment for the pod's cluster and for faults. The only file of
// this process that reads either.
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { CONNECTION_FLAGS, readConnectionSettings } from "../../kube/connection-flags.ts";
import type { ConnectionSettings } from "../../kube/kube-config.ts";
import {
  durationFlag,
  PROCESS_FLAGS,
  type ProcessSettings,
  readFlags,
  readProcessSettings,
} from "../../process/flags.ts";

export interface PolicyEngineConfig extends ProcessSettings {
  readonly connection: ConnectionSettings;
  /** This start's name on the lease. */
  readonly identity: string;
  readonly leaseNamespace: string;
  /** Unix socket on which agents stream their samples. */
  readonly samplesSocket: string;
  /** Undefined: no slow path; agents' samples alone decide. */
  readonly prometheusUrl: string | undefined;
  readonly scrapeIntervalMs: number;
  readonly evaluationIntervalMs: number;
}

const FLAGS = {
  ...CONNECTION_FLAGS,
  ...PROCESS_FLAGS,
  "http-port": { type: "string", default: "9464" },
  identity: { type: "string", default: hostname() },
  "lease-namespace": { type: "string", default: "tidemark-system" },
  "samples-socket": { type: "string", default: "/run/tidemark/policy-engine.sock" },
  prometheus: { type: "string" },
  "scrape-interval": { type: "string", default: "15s" },
  "evaluation-interval": { type: "string", default: "15s" },
} as const;

/** Shorter ones would leave the process no time but for rounds over all volumes. */
const LEAST_INTERVAL_MS = 100;

/** Throws with a sentence for the user on anything it cannot read. */
export function readConfig(args: readonly string[], environment: NodeJS.ProcessEnv = process.env): PolicyEngineConfig {
  const values = readFlags(FLAGS, args);
  const interval = (flag: "scrape-interval" | "evaluation-interval"): number =>
    durationFlag(flag, values[flag], LEAST_INTERVAL_MS);
  return {
    ...readProcessSettings(values, environment),
    connection: readConnectionSettings(values, environment),
    identity: `${values.identity}_${randomUUID()}`,
    leaseNamespace: values["lease-namespace"],
    samplesSocket: values["samples-socket"],
    prometheusUrl: values.prometheus,
    scrapeIntervalMs: interval("scrape-interval"),
    evaluationIntervalMs: interval("evaluation-interval"),
  };
}
