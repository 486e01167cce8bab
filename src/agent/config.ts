// What the agent gets from outside: flags, and the environment for the pod's cluster and for faults. The only file of this
// process that reads either.

import { isAbsolute } from "node:path";
import { fileURLToPath } from "node:url";
import { parseQuantity, QuantityError } from "../contracts/quantities/quantity.ts";
import {
  CONNECTION_FLAGS,
  type ConnectionSettings,
  readConnectionSettings,
} from "../platform/kube/client/kube-config.ts";
import {
  addressFlag,
  isLoopback,
  oneOfFlag,
  ownNamespace,
  ownNodeName,
  PROCESS_FLAGS,
  type ProcessSettings,
  readFlags,
  readProcessSettings,
} from "../platform/process/flags.ts";
import {
  METRICS_FLAGS,
  type MetricsAuthentication,
  readMetricsAuthentication,
} from "../platform/process/metrics/secured-metrics.ts";
import type { ServiceReference } from "./engine-link/engine-endpoints.ts";

const STORAGE_KINDS = ["real", "simulated"] as const;

export interface AgentConfig extends ProcessSettings {
  readonly connection: ConnectionSettings;
  /** Undefined: who reaches the port reads metrics. */
  readonly metricsAuthentication: MetricsAuthentication | undefined;
  readonly nodeName: string;
  /** Unix socket of the CSI Identity and Node services; kubelet finds it by the same path. */
  readonly csiSocket: string;
  /** The same for span.tidemark.dev; undefined: this node serves no spans. */
  readonly spanCsiSocket: string | undefined;
  /** Unix socket of this node's lvmd; undefined: this node has no LVM. */
  readonly lvmdSocket: string | undefined;
  /** Where kubelet looks for drivers (plugins_registry); undefined: the agent does not register its driver. */
  readonly registrationDirectory: string | undefined;
  /** The policy-engines' sample servers: "unix:///path" or "host:port". */
  readonly engines: readonly string[];
  /** The headless Service of the engines in a cluster, in our own namespace. */
  readonly engineService: ServiceReference | undefined;
  /** ca.crt, tls.crt and tls.key to reach them with; undefined: in the clear, on this machine. */
  readonly engineTlsDirectory: string | undefined;
  /** The service account token that says which node this is; there with the directory, or not at all. */
  readonly engineTokenFile: string | undefined;
  /** The node's own records and locks. */
  readonly stateDirectory: string;
  /** Where loop members are made. */
  readonly memberDirectory: string;
  /** Every path of a CSI request must lie under it. */
  readonly kubeletDirectory: string;
  /** What member files leave free on the disk that kubelet's directory is on, too. */
  readonly evictionReserve: EvictionReserve;
  readonly storage: (typeof STORAGE_KINDS)[number];
  /** The bundled sampling thread. */
  readonly samplerWorkerPath: string;
  /** The bundled thread that reads mounts for operations. */
  readonly mountReaderPath: string;
}

const FLAGS = {
  ...CONNECTION_FLAGS,
  ...PROCESS_FLAGS,
  ...METRICS_FLAGS,
  "http-port": { type: "string", default: "9466" },
  "node-name": { type: "string" },
  "csi-socket": { type: "string", default: "/var/lib/kubelet/plugins/local.tidemark.dev/csi.sock" },
  "span-csi-socket": { type: "string" },
  "lvmd-socket": { type: "string" },
  "registration-directory": { type: "string" },
  engine: { type: "string", multiple: true },
  "engine-service": { type: "string" },
  "engine-tls-directory": { type: "string" },
  "engine-token-file": { type: "string" },
  "state-directory": { type: "string", default: "/var/lib/tidemark/state" },
  "member-directory": { type: "string", default: "/var/lib/tidemark/members" },
  "kubelet-directory": { type: "string", default: "/var/lib/kubelet" },
  "eviction-reserve": { type: "string", default: "10%" },
  storage: { type: "string", default: "real" },
  "sampler-worker": { type: "string", default: fileURLToPath(new URL("./sampler-worker.mjs", import.meta.url)) },
  "mount-reader": { type: "string", default: fileURLToPath(new URL("./mount-reader.mjs", import.meta.url)) },
} as const;

const PATH_FLAGS = [
  "csi-socket",
  "span-csi-socket",
  "lvmd-socket",
  "registration-directory",
  "state-directory",
  "member-directory",
  "kubelet-directory",
  "engine-tls-directory",
  "engine-token-file",
] as const;

const REAL_DEVICE_FLAGS = ["span-csi-socket", "lvmd-socket"] as const;

/** Throws with a sentence for the user on anything it cannot read. */
export function readConfig(args: readonly string[], environment: NodeJS.ProcessEnv = process.env): AgentConfig {
  const values = readFlags(FLAGS, args);
  for (const flag of PATH_FLAGS) {
    const path = values[flag];
    if (path !== undefined && !isAbsolute(path)) throw new Error(`--${flag} ${path} is not an absolute path`);
  }
  const storage = oneOfFlag("storage", values.storage, STORAGE_KINDS);
  for (const flag of REAL_DEVICE_FLAGS)
    if (storage === "simulated" && values[flag] !== undefined)
      throw new Error(`--${flag} needs --storage real: its members are real devices`);
  return {
    ...readProcessSettings(values, environment),
    connection: readConnectionSettings(values, environment),
    metricsAuthentication: readMetricsAuthentication(values),
    nodeName: values["node-name"] ?? ownNodeName(environment),
    csiSocket: values["csi-socket"],
    spanCsiSocket: values["span-csi-socket"],
    lvmdSocket: values["lvmd-socket"],
    registrationDirectory: values["registration-directory"],
    ...readEngines(values.engine ?? [], values["engine-tls-directory"], values["engine-token-file"]),
    engineService: readEngineService(values["engine-service"], values["engine-tls-directory"], environment),
    stateDirectory: values["state-directory"],
    memberDirectory: values["member-directory"],
    kubeletDirectory: values["kubelet-directory"],
    evictionReserve: readEvictionReserve(values["eviction-reserve"]),
    storage,
    samplerWorkerPath: values["sampler-worker"],
    mountReaderPath: values["mount-reader"],
  };
}

type EngineSettings = Pick<AgentConfig, "engines" | "engineTlsDirectory" | "engineTokenFile">;

/** Throws on an address in the clear: the agent would trust any process that answers there, and show it every volume's use. */
function readEngines(
  engines: readonly string[],
  engineTlsDirectory: string | undefined,
  engineTokenFile: string | undefined,
): EngineSettings {
  if ((engineTlsDirectory === undefined) !== (engineTokenFile === undefined))
    throw new Error("--engine-tls-directory and --engine-token-file are given together, or neither is");
  for (const engine of engines) {
    if (engine.startsWith("unix:")) continue;
    const { host } = addressFlag("engine", engine);
    if (engineTlsDirectory === undefined && !isLoopback(host))
      throw new Error(
        `--engine ${engine} is not on this machine: give --engine-tls-directory and --engine-token-file, or an address of loopback`,
      );
  }
  return { engines, engineTlsDirectory, engineTokenFile };
}

function readEngineService(
  name: string | undefined,
  engineTlsDirectory: string | undefined,
  environment: NodeJS.ProcessEnv,
): ServiceReference | undefined {
  if (name === undefined) return undefined;
  if (engineTlsDirectory === undefined)
    throw new Error(
      `--engine-service ${name} leads to other machines: give --engine-tls-directory and --engine-token-file`,
    );
  return { namespace: ownNamespace(environment), name };
}

/** Of the disk, or a size whatever the disk. */
export type EvictionReserve = { readonly ratio: number } | { readonly bytes: number };

const PERCENTAGE = /^(\d{1,2}(?:\.\d+)?)%$/;

/** As kubelet's thresholds are written: "10%", or "5Gi". Throws with a sentence for the user. */
export function readEvictionReserve(text: string): EvictionReserve {
  const [, percentage] = PERCENTAGE.exec(text) ?? [];
  if (percentage !== undefined) return { ratio: Number(percentage) / 100 };
  try {
    return { bytes: parseQuantity(text) };
  } catch (error) {
    if (error instanceof QuantityError)
      throw new Error(
        `--eviction-reserve ${text} is neither a percentage below 100%, such as 10%, nor a size, such as 5Gi`,
        {
          cause: error,
        },
      );
    throw error;
  }
}

export function evictionReserveBytes(reserve: EvictionReserve, diskBytes: number): number {
  return "ratio" in reserve ? Math.ceil(reserve.ratio * diskBytes) : reserve.bytes;
}
