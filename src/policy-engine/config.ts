// What the policy-engine is told from outside: flags, and the environment for the pod's cluster and for faults. The only file of
// this process that reads either.
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { CONNECTION_FLAGS, readConnectionSettings } from "../kube/client/connection-flags.ts";
import type { ConnectionSettings } from "../kube/client/kube-config.ts";
import { type Address, addressFlag, isLoopback } from "../process/address.ts";
import {
  durationFlag,
  oneOfFlag,
  PROCESS_FLAGS,
  type ProcessSettings,
  readFlags,
  readProcessSettings,
} from "../process/flags.ts";
import { METRICS_FLAGS, type MetricsAuthentication, readMetricsAuthentication } from "../process/metrics-flags.ts";
import { ownNamespace } from "../process/pod-environment.ts";

export interface PolicyEngineConfig extends ProcessSettings {
  readonly connection: ConnectionSettings;
  /** Undefined: who reaches the port reads metrics. */
  readonly metricsAuthentication: MetricsAuthentication | undefined;
  /** This start's name on the lease. */
  readonly identity: string;
  readonly leaseNamespace: string;
  /** Unix socket on which agents stream their samples; not served where there is an address. */
  readonly samplesSocket: string;
  /** Where agents of all nodes stream their samples. */
  readonly samplesAddress: Address | undefined;
  /** "SelfMade": mutual TLS with certificates that the leader makes, and agents' tokens are checked. */
  readonly samplesTls: (typeof TLS_KINDS)[number];
  /** The agents' service account, in our namespace. */
  readonly agentServiceAccount: string;
  /** Undefined: no slow path; agents' samples alone decide. */
  readonly prometheusUrl: string | undefined;
  readonly scrapeIntervalMs: number;
  readonly evaluationIntervalMs: number;
}

const TLS_KINDS = ["Off", "SelfMade"] as const;

const FLAGS = {
  ...CONNECTION_FLAGS,
  ...PROCESS_FLAGS,
  ...METRICS_FLAGS,
  "http-port": { type: "string", default: "9464" },
  identity: { type: "string", default: hostname() },
  "lease-namespace": { type: "string" },
  "samples-socket": { type: "string", default: "/run/tidemark/policy-engine.sock" },
  "samples-address": { type: "string" },
  "samples-tls": { type: "string", default: "Off" },
  "agent-service-account": { type: "string", default: "tidemark-agent" },
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
    metricsAuthentication: readMetricsAuthentication(values),
    identity: `${values.identity}_${randomUUID()}`,
    leaseNamespace: values["lease-namespace"] ?? ownNamespace(environment),
    samplesSocket: values["samples-socket"],
    ...readSamplesListener(values["samples-address"], oneOfFlag("samples-tls", values["samples-tls"], TLS_KINDS)),
    agentServiceAccount: values["agent-service-account"],
    prometheusUrl: values.prometheus,
    scrapeIntervalMs: interval("scrape-interval"),
    evaluationIntervalMs: interval("evaluation-interval"),
  };
}

/** Whoever reaches an open port could speak for any node: without TLS nobody outside this machine may. */
function readSamplesListener(
  text: string | undefined,
  samplesTls: PolicyEngineConfig["samplesTls"],
): Pick<PolicyEngineConfig, "samplesAddress" | "samplesTls"> {
  if (text === undefined) {
    if (samplesTls === "Off") return { samplesAddress: undefined, samplesTls };
    throw new Error(`--samples-tls ${samplesTls} needs a --samples-address to serve on`);
  }
  const samplesAddress = addressFlag("samples-address", text);
  if (samplesTls === "Off" && !isLoopback(samplesAddress.host))
    throw new Error(
      `--samples-address ${text} can be reached from outside this machine, and --samples-tls is Off: anybody could speak ` +
        "for any node. Give --samples-tls SelfMade, or an address of loopback",
    );
  return { samplesAddress, samplesTls };
}
