// What the standalone process gets from outside. The only file of this process that reads flags.
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { FS_TYPES, type FsType } from "../../src/contracts/kinds/filesystem-layout.ts";
import { LOCAL_DRIVER } from "../../src/contracts/names.ts";
import { parseQuantity, QuantityError } from "../../src/contracts/quantities/quantity.ts";
import { oneOfFlag, portFlag, readFlags } from "../../src/platform/process/flags.ts";
import { LOG_LEVELS, type LogLevel } from "../../src/platform/process/log.ts";

export interface StandaloneConfig {
  /** Port of the embedded control plane on 127.0.0.1; 0 picks a free one. */
  readonly port: number;
  /** Written at the start: ca.crt, token and config (a kubeconfig), for the owner alone. */
  readonly credentialsDirectory: string;
  readonly nodeName: string;
  readonly operatorSocket: string;
  /** By default where the agent puts it for kubelet. */
  readonly agentSocket: string;
  /** What /var/lib/kubelet is on a node: volumes are staged and published under it. */
  readonly kubeletDirectory: string;
  /** Directory with the CustomResourceDefinitions. */
  readonly crdDirectory: string;
  /** The class' initialSize, a quantity; undefined: volumes begin with the request. */
  readonly initialSize: string | undefined;
  readonly fsType: FsType;
  readonly logLevel: LogLevel;
}

const FLAGS = {
  port: { type: "string", default: "8001" },
  "write-credentials": { type: "string", default: "/run/tidemark/standalone" },
  "node-name": { type: "string", default: "localhost" },
  "operator-socket": { type: "string", default: "/run/tidemark/csi-controller.sock" },
  "agent-socket": { type: "string" },
  "kubelet-directory": { type: "string", default: "/var/lib/tidemark/kubelet" },
  "crd-directory": { type: "string" },
  "initial-size": { type: "string" },
  "fs-type": { type: "string", default: "btrfs" },
  "log-level": { type: "string", default: "info" },
} as const;

/** Throws with a sentence for the user on anything it cannot read. */
export function readConfig(args: readonly string[]): StandaloneConfig {
  const values = readFlags(FLAGS, args);
  const kubeletDirectory = values["kubelet-directory"];
  return {
    port: portFlag("port", values.port),
    credentialsDirectory: values["write-credentials"],
    nodeName: values["node-name"],
    operatorSocket: values["operator-socket"],
    agentSocket: values["agent-socket"] ?? join(kubeletDirectory, "plugins", LOCAL_DRIVER, "csi.sock"),
    kubeletDirectory,
    crdDirectory: values["crd-directory"] ?? defaultCrdDirectory(),
    initialSize: checkedQuantity("initial-size", values["initial-size"]),
    fsType: oneOfFlag("fs-type", values["fs-type"], FS_TYPES),
    logLevel: oneOfFlag("log-level", values["log-level"], LOG_LEVELS),
  };
}

/** Seen from the bundle (dist/demo/demo.mjs), and from this file: both are two directories deep. */
export function defaultCrdDirectory(): string {
  const here = dirname(fileURLToPath(import.meta.url));
  const directory = join(here, "../../kustomize/foundation/crds");
  if (!existsSync(directory))
    throw new Error(`the CustomResourceDefinitions are not in ${directory}; give --crd-directory`);
  return directory;
}

/** The text as it is: the class' parameter is a text too. */
function checkedQuantity(flag: string, text: string | undefined): string | undefined {
  try {
    if (text !== undefined) parseQuantity(text);
    return text;
  } catch (error) {
    if (error instanceof QuantityError) throw new Error(`--${flag}: ${error.message}`, { cause: error });
    throw error;
  }
}
