// What the extender gets from outside: flags, and the environment for the pod's cluster and for faults. The only file of this process
// that reads either.

import {
  CONNECTION_FLAGS,
  type ConnectionSettings,
  readConnectionSettings,
} from "../platform/kube/client/kube-config.ts";
import {
  durationFlag,
  isLoopback,
  oneOfFlag,
  ownNamespace,
  PROCESS_FLAGS,
  type ProcessSettings,
  portFlag,
  readFlags,
  readProcessSettings,
} from "../platform/process/flags.ts";
import {
  METRICS_FLAGS,
  type MetricsAuthentication,
  readMetricsAuthentication,
} from "../platform/process/metrics/secured-metrics.ts";
import type { PlacementSettings } from "./place-pods.ts";

export interface ExtenderConfig extends ProcessSettings {
  readonly connection: ConnectionSettings;
  /** Undefined: who reaches the port reads metrics. */
  readonly metricsAuthentication: MetricsAuthentication | undefined;
  /** Where schedulers ask; httpPort is for probes and metrics. */
  readonly extenderPort: number;
  /** Off only where no other machine can ask. */
  readonly tls: (typeof TLS_KINDS)[number];
  /** Where the Secret of its certificate is. */
  readonly namespace: string;
  readonly placement: PlacementSettings;
  /**
   * How long what a pod was offered is held for it where nothing shows where it went. kube-scheduler has no limit of its own between its
   * choice and the first object that shows it, other than its rate of writes: 5,000 pods of three writes each take 15 s at the 1,000 a second
   * that the component gives it.
   */
  readonly holdLimitMs: number;
  /** After the first list, before questions are answered: what another replica has answered shows by then. */
  readonly startDelayMs: number;
}

/** What decides, of the flags: `tidemark explain --pod` takes them, too. */
export const PLACEMENT_FLAGS = {
  "offered-nodes": { type: "string", default: "32" },
  "weight-free": { type: "string", default: "2" },
  "weight-growth": { type: "string", default: "1" },
  "weight-io": { type: "string", default: "1" },
  "default-divisor": { type: "string", default: "1" },
  /** CLASS=NUMBER, once for each class. */
  divisor: { type: "string", multiple: true },
} as const;

const TLS_KINDS = ["SelfMade", "Off"] as const;

const FLAGS = {
  ...CONNECTION_FLAGS,
  ...PROCESS_FLAGS,
  ...METRICS_FLAGS,
  "http-port": { type: "string", default: "9474" },
  "extender-port": { type: "string", default: "9473" },
  "extender-tls": { type: "string", default: "SelfMade" },
  "hold-limit": { type: "string", default: "60s" },
  "start-delay": { type: "string", default: "3s" },
  ...PLACEMENT_FLAGS,
} as const;

const OFFERED_NODES_LIMIT = 5000;
const LEAST_HOLD_MS = 100;
/** Beyond it a weight says no more, and sums of such numbers stay numbers. */
const NUMBER_LIMIT = 1_000_000;

/** Throws with a sentence for the user on anything it cannot read. */
export function readConfig(args: readonly string[], environment: NodeJS.ProcessEnv = process.env): ExtenderConfig {
  const values = readFlags(FLAGS, args);
  return {
    ...readProcessSettings(values, environment),
    connection: readConnectionSettings(values, environment),
    metricsAuthentication: readMetricsAuthentication(values),
    extenderPort: portFlag("extender-port", values["extender-port"]),
    tls: readTls(values["extender-tls"], values["http-host"]),
    namespace: ownNamespace(environment),
    placement: readPlacement(values),
    holdLimitMs: durationFlag("hold-limit", values["hold-limit"], LEAST_HOLD_MS),
    startDelayMs: durationFlag("start-delay", values["start-delay"], 0),
  };
}

/** An answer holds room: a stranger at an open port could block a cluster's pods from their nodes. */
function readTls(text: string, host: string): ExtenderConfig["tls"] {
  const tls = oneOfFlag("extender-tls", text, TLS_KINDS);
  if (tls === "Off" && !isLoopback(host))
    throw new Error(
      `--extender-tls Off, and --http-host ${host} can be reached from outside this machine: any client could ask for all ` +
        "room. Give --extender-tls SelfMade, or an address of loopback",
    );
  return tls;
}

type PlacementValues = Readonly<Record<Exclude<keyof typeof PLACEMENT_FLAGS, "divisor">, string>> & {
  readonly divisor?: readonly string[];
};

export function readPlacement(values: PlacementValues): PlacementSettings {
  const weight = (name: "weight-free" | "weight-growth" | "weight-io"): number => numberFlag(name, values[name]);
  return {
    offeredNodes: countFlag("offered-nodes", values["offered-nodes"]),
    weights: { free: weight("weight-free"), growth: weight("weight-growth"), io: weight("weight-io") },
    defaultDivisor: divisorFlag("default-divisor", values["default-divisor"]),
    divisors: new Map((values.divisor ?? []).map(divisorOfClass)),
  };
}

function countFlag(flag: string, text: string): number {
  const count = Number(text);
  if (!/^\d+$/.test(text) || count < 1 || count > OFFERED_NODES_LIMIT)
    throw new Error(`--${flag} ${text} is not a number from 1 to ${OFFERED_NODES_LIMIT}`);
  return count;
}

function numberFlag(flag: string, text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !(value >= 0 && value <= NUMBER_LIMIT))
    throw new Error(`--${flag} ${text} is not a number from 0 to ${NUMBER_LIMIT}`);
  return value;
}

function divisorFlag(flag: string, text: string): number {
  const value = numberFlag(flag, text);
  if (value === 0) throw new Error(`--${flag} ${text}: nothing is divided by 0`);
  return value;
}

function divisorOfClass(text: string): readonly [string, number] {
  const equals = text.lastIndexOf("=");
  if (equals <= 0) throw new Error(`--divisor ${text} is not CLASS=NUMBER`);
  return [text.slice(0, equals), divisorFlag("divisor", text.slice(equals + 1))];
}
