// What an administrator and the node's kubelet would have put into the cluster: our kinds, namespaces, the node with our
// driver on it, and a StorageClass. Applied again at each start; it changes nothing that is there already.
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import type { KubeObject, Resource } from "../../src/contracts/kubernetes/object.ts";
import {
  CSI_DRIVERS,
  CSI_NODES,
  CUSTOM_RESOURCE_DEFINITIONS,
  type CustomResourceDefinition,
  NAMESPACES,
  NODES,
  STORAGE_CLASSES,
} from "../../src/contracts/kubernetes/resources.ts";
import { LOCAL_DRIVER, TOPOLOGY_NODE } from "../../src/contracts/names.ts";
import type { ApplyConfiguration, KubeClient } from "../../src/platform/kube/client/client.ts";
import { isKubeError } from "../../src/platform/kube/kube-error.ts";
import { pause } from "../../src/platform/process/async/pause.ts";
import type { StandaloneConfig } from "./config.ts";

export const LOOP_CLASS_NAME = "tidemark-loop";
const NAMESPACE_NAMES = ["default", "tidemark-system"];
const OPTIONS = { fieldManager: "tidemark-standalone", force: true } as const;
const SERVED_ATTEMPTS_LIMIT = 200;
const SERVED_RETRY_MS = 25;

export type Bootstrapping = Pick<StandaloneConfig, "crdDirectory" | "nodeName" | "initialSize" | "fsType">;

export async function bootstrap(client: KubeClient, config: Bootstrapping): Promise<void> {
  for (const definition of await readDefinitions(config.crdDirectory)) {
    await client.apply("bootstrap/definition", CUSTOM_RESOURCE_DEFINITIONS, definition, OPTIONS);
    await untilServed(client, definition);
  }
  for (const name of NAMESPACE_NAMES)
    await client.apply("bootstrap/namespace", NAMESPACES, configuration("v1", NAMESPACES, name, {}), OPTIONS);
  await applyNode(client, config.nodeName);
  await client.apply("bootstrap/csi-driver", CSI_DRIVERS, csiDriver(), OPTIONS);
  await client.apply("bootstrap/storage-class", STORAGE_CLASSES, loopClass(config), OPTIONS);
}

type Definition = ApplyConfiguration & CustomResourceDefinition;

async function readDefinitions(directory: string): Promise<Definition[]> {
  const files = (await readdir(directory)).filter((name) => name.endsWith(".yaml")).sort();
  const texts = await Promise.all(files.map((file) => readFile(join(directory, file), "utf8")));
  const definitions = texts
    .map((text) => parse(text) as Definition)
    .filter(({ kind }) => kind === CUSTOM_RESOURCE_DEFINITIONS.kind);
  if (definitions.length === 0) throw new Error(`${directory} has no CustomResourceDefinition in a .yaml file`);
  return definitions;
}

/** A definition is served a moment after it was written. */
async function untilServed(client: KubeClient, { metadata, spec }: Definition): Promise<void> {
  const resource: Resource<KubeObject> = {
    group: spec.group,
    version: spec.versions[0]?.name ?? "",
    plural: spec.names.plural,
    kind: spec.names.kind,
    namespaced: spec.scope === "Namespaced",
  };
  for (let attempt = 1; ; attempt += 1) {
    try {
      await client.list(resource);
      return;
    } catch (error) {
      if (!isKubeError(error, "NotFound")) throw error;
      if (attempt >= SERVED_ATTEMPTS_LIMIT)
        throw new Error(`${metadata.name} is not served ${attempt * SERVED_RETRY_MS} ms after it was applied`, {
          cause: error,
        });
    }
    await pause(SERVED_RETRY_MS);
  }
}

async function applyNode(client: KubeClient, nodeName: string): Promise<void> {
  const labels = { "kubernetes.io/hostname": nodeName, [TOPOLOGY_NODE]: nodeName };
  const node = configuration("v1", NODES, nodeName, {});
  await client.apply("bootstrap/node", NODES, { ...node, metadata: { name: nodeName, labels } }, OPTIONS);
  const ready = { type: "Ready", status: "True", reason: "KubeletReady", message: "standalone" };
  const status = { ...node, status: { conditions: [ready] } };
  await client.apply("bootstrap/node-status", NODES, status, { ...OPTIONS, subresource: "status" });
  const driver = { name: LOCAL_DRIVER, nodeID: nodeName, topologyKeys: [TOPOLOGY_NODE] };
  const csiNode = configuration("storage.k8s.io/v1", CSI_NODES, nodeName, { spec: { drivers: [driver] } });
  await client.apply("bootstrap/csi-node", CSI_NODES, csiNode, OPTIONS);
}

export function csiDriver(): ApplyConfiguration {
  return configuration("storage.k8s.io/v1", CSI_DRIVERS, LOCAL_DRIVER, {
    spec: {
      attachRequired: false,
      podInfoOnMount: true,
      fsGroupPolicy: "File",
      volumeLifecycleModes: ["Persistent"],
    },
  });
}

function loopClass({ initialSize, fsType }: Bootstrapping): ApplyConfiguration {
  return configuration("storage.k8s.io/v1", STORAGE_CLASSES, LOOP_CLASS_NAME, {
    provisioner: LOCAL_DRIVER,
    parameters: {
      backend: "loop",
      ...(initialSize === undefined ? {} : { initialSize }),
      "csi.storage.k8s.io/fstype": fsType,
    },
    reclaimPolicy: "Delete",
    allowVolumeExpansion: true,
    volumeBindingMode: "Immediate",
  });
}

function configuration<T extends KubeObject>(
  apiVersion: string,
  { kind }: Resource<T>,
  name: string,
  fields: Record<string, unknown>,
): ApplyConfiguration {
  return { apiVersion, kind, metadata: { name }, ...fields };
}
