// What the agent is told from outside: flags, and the environment for the pod's cluster and for faults. The only file of this
// process that reads either.
import { hostname } from "node:os";
import { isAbsolute } from "node:path";
import { fileURLToPath } from "node:url";
import { CONNECTION_FLAGS, readConnectionSettings } from "../kube/connection-flags.ts";
import type { ConnectionSettings } from "../kube/kube-config.ts";
import { oneOfFlag, PROCESS_FLAGS, type ProcessSettings, readFlags, readProcessSettings } from "../process/flags.ts";

const STORAGE_KINDS = ["real", "simulated"] as const;

export interface AgentConfig extends ProcessSettings {
  readonly connection: ConnectionSettings;
  readonly nodeName: string;
  /** Unix socket of the CSI Identity and Node services. */
  readonly csiSocket: string;
  /** The policy-engines' sample servers: "unix:///path" or "host:port". */
  readonly engines: readonly string[];
  /** The node's own records and locks. */
  readonly stateDirectory: string;
  /** Where loop members are made. */
  readonly memberDirectory: string;
  /** Every path of a CSI request must lie under it. */
  readonly kubeletDirectory: string;
  readonly storage: (typeof STORAGE_KINDS)[number];
  /** The bundled sampling thread. */
  readonly samplerWorkerPath: string;
}

const FLAGS = {
  ...CONNECTION_FLAGS,
  ...PROCESS_FLAGS,
  "http-port": { type: "string", default: "9466" },
  "node-name": { type: "string", default: hostname() },
  "csi-socket": { type: "string", default: "/var/lib/kubelet/plugins/local.tidemark.dev/csi.sock" },
  engine: { type: "string", multiple: true },
  "state-directory": { type: "string", default: "/var/lib/tidemark/state" },
  "member-directory": { type: "string", default: "/var/lib/tidemark/members" },
  "kubelet-directory": { type: "string", default: "/var/lib/kubelet" },
  storage: { type: "string", default: "real" },
  "sampler-worker": { type: "string", default: fileURLToPath(new URL("./sampler-worker.mjs", import.meta.url)) },
} as const;

const DIRECTORY_FLAGS = ["state-directory", "member-directory", "kubelet-directory"] as const;

/** Throws with a sentence for the user on anything it cannot read. */
export function readConfig(args: readonly string[], environment: NodeJS.ProcessEnv = process.env): AgentConfig {
  const values = readFlags(FLAGS, args);
  for (const flag of DIRECTORY_FLAGS)
    if (!isAbsolute(values[flag])) throw new Error(`--${flag} ${values[flag]} is no absolute path`);
  return {
    ...readProcessSettings(values, environment),
    connection: readConnectionSettings(values, environment),
    nodeName: values["node-name"],
    csiSocket: values["csi-socket"],
    engines: values.engine ?? [],
    stateDirectory: values["state-directory"],
    memberDirectory: values["member-directory"],
    kubeletDirectory: values["kubelet-directory"],
    storage: oneOfFlag("storage", values.storage, STORAGE_KINDS),
    samplerWorkerPath: values["sampler-worker"],
  };
}
