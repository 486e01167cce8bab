// What the operator gets from outside: flags, and the environment for the pod's cluster and for faults. The only file of
// this process that reads either.
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import {
  CONNECTION_FLAGS,
  type ConnectionSettings,
  readConnectionSettings,
} from "../platform/kube/client/kube-config.ts";
import {
  durationFlag,
  ownNamespace,
  ownUserName,
  PROCESS_FLAGS,
  type ProcessSettings,
  portFlag,
  quantityFlag,
  readFlags,
  readProcessSettings,
} from "../platform/process/flags.ts";
import {
  METRICS_FLAGS,
  type MetricsAuthentication,
  readMetricsAuthentication,
} from "../platform/process/metrics/secured-metrics.ts";

export interface OperatorConfig extends ProcessSettings {
  readonly connection: ConnectionSettings;
  /** Undefined: who reaches the port reads metrics. */
  readonly metricsAuthentication: MetricsAuthentication | undefined;
  /** This start's name on the lease. */
  readonly identity: string;
  readonly leaseNamespace: string;
  /** The operator's service account, as the API server names it; undefined: not in a pod, and members are not guarded. */
  readonly userName: string | undefined;
  /** Whether members are placed only where the admission policies guard them: so in a cluster. */
  readonly guardsRequired: boolean;
  /** Unix socket of the CSI Identity and Controller services of local.tidemark.dev. */
  readonly csiSocket: string;
  /** The same of span.tidemark.dev; undefined: that driver is not served. */
  readonly spanCsiSocket: string | undefined;
  /** Bytes that the spans of a namespace may have of a class that no ResourceQuota of the namespace limits. */
  readonly namespaceBudgetBytes: number;
  /** How long a node must have been lost before a claim that says so is deleted. */
  readonly nodeLossDelayMs: number;
  /** Between two looks at which pods lack attach slots. No flag sets it. */
  readonly consolidationLookMs: number;
  /** Undefined: pods are not sent here. */
  readonly podWebhook: PodWebhookSettings | undefined;
}

export interface PodWebhookSettings {
  /** 0 picks a free port. */
  readonly port: number;
  /** Schedulers that ask the extender besides Tidemark's own: pods keep them, the default one too when it is among them. */
  readonly schedulersWithExtender: readonly string[];
}

/** Pods come in bursts, and none is in a hurry that has waited that long: a look counts slots on each node. */
const CONSOLIDATION_LOOK_MS = 10_000;

const FLAGS = {
  ...CONNECTION_FLAGS,
  ...PROCESS_FLAGS,
  ...METRICS_FLAGS,
  "http-port": { type: "string", default: "9465" },
  identity: { type: "string", default: hostname() },
  "lease-namespace": { type: "string" },
  "span-csi-socket": { type: "string" },
  "default-namespace-budget": { type: "string", default: "1Ti" },
  "pod-webhook": { type: "boolean", default: false },
  "pod-webhook-port": { type: "string", default: "9473" },
  "scheduler-with-extender": { type: "string", multiple: true, default: [] as string[] },
  "node-loss-delay": { type: "string", default: "30s" },
  "csi-socket": { type: "string", default: "/run/tidemark/csi-controller.sock" },
} as const;

/** Throws with a sentence for the user on anything it cannot read. */
export function readConfig(args: readonly string[], environment: NodeJS.ProcessEnv = process.env): OperatorConfig {
  const values = readFlags(FLAGS, args);
  const userName = ownUserName(environment);
  return {
    ...readProcessSettings(values, environment),
    connection: readConnectionSettings(values, environment),
    metricsAuthentication: readMetricsAuthentication(values),
    identity: `${values.identity}_${randomUUID()}`,
    leaseNamespace: values["lease-namespace"] ?? ownNamespace(environment),
    userName,
    guardsRequired: userName !== undefined,
    csiSocket: values["csi-socket"],
    spanCsiSocket: values["span-csi-socket"],
    nodeLossDelayMs: durationFlag("node-loss-delay", values["node-loss-delay"], 0),
    consolidationLookMs: CONSOLIDATION_LOOK_MS,
    podWebhook: values["pod-webhook"]
      ? {
          port: portFlag("pod-webhook-port", values["pod-webhook-port"]),
          schedulersWithExtender: values["scheduler-with-extender"],
        }
      : undefined,
    namespaceBudgetBytes: quantityFlag("default-namespace-budget", values["default-namespace-budget"]),
  };
}
