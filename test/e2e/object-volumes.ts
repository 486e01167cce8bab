// Stands for csi-provisioner, operator and agents on nodes that are objects: a claim with a chosen node becomes a volume there, and what
// the node has left is reported after it, late and in any order, as on real nodes. A claim that its node has no room for is refused, and
// given back to the scheduler: that is what a wrong placement costs.
import { setTimeout as sleep } from "node:timers/promises";
import { volumeHandleOf } from "../../src/contracts/identity.ts";
import { LOGICAL_VOLUMES } from "../../src/contracts/kinds/logical-volume.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
} from "../../src/contracts/kubernetes/resources.ts";
import { API_VERSION, LOCAL_DRIVER, TOPOLOGY_NODE } from "../../src/contracts/names.ts";
import { parseQuantity } from "../../src/contracts/quantities/quantity.ts";
import { createReflector } from "../../src/platform/kube/cache/reflector.ts";
import { createLogger } from "../../src/platform/process/log.ts";
import { OBJECT_DEVICE_CLASS, type ObjectNodes, tellFree } from "./object-nodes.ts";

const SELECTED_NODE = "volume.kubernetes.io/selected-node";
/** How late a node's figures are at most; by the claim's name, so that each run is the same. */
const LAG_LIMIT_MS = 2000;

export interface ObjectVolumes {
  /** Claims whose chosen node had no room for them. */
  readonly refused: string[];
  /** Throws what went wrong meanwhile. */
  stop(): Promise<void>;
}

/** `freeBytes`: what each node has; it is what is left afterwards. */
export async function provisionOnObjects(
  nodes: ObjectNodes,
  freeBytes: Map<string, number>,
  sizeBytes: number,
): Promise<ObjectVolumes> {
  const { client, className } = nodes;
  const claims = createReflector({
    client,
    resource: PERSISTENT_VOLUME_CLAIMS,
    log: createLogger("e2e", "warn"),
  });
  const refused: string[] = [];
  /** Of each node, so that what it says last is its present state. */
  const turns = new Map<string, Promise<void>>();
  const report = (node: string): Promise<void> => tellFree(nodes, node, freeBytes.get(node) ?? 0, sizeBytes);
  const begun = new Set<string>();
  const work: Promise<void>[] = [];
  const place = async (claim: PersistentVolumeClaim, node: string): Promise<void> => {
    const bytes = parseQuantity(claim.spec.resources?.requests?.storage ?? "0");
    const left = (freeBytes.get(node) ?? 0) - bytes;
    if (left < 0) {
      refused.push(claim.metadata.name);
      begun.delete(attempt(claim));
      await client.mergePatch("e2e/refuse", PERSISTENT_VOLUME_CLAIMS, nameOf(claim), {
        metadata: { annotations: { [SELECTED_NODE]: null } },
      });
      return;
    }
    freeBytes.set(node, left);
    await makeVolume(nodes, claim, node, bytes, () => {
      const turn = (turns.get(node) ?? Promise.resolve()).then(() => report(node));
      turns.set(node, turn);
      return turn;
    });
  };
  const look = (claim: PersistentVolumeClaim): void => {
    const node = claim.metadata.annotations?.[SELECTED_NODE];
    const isOurs = claim.spec.storageClassName === className && claim.spec.volumeName === undefined;
    if (!isOurs || node === undefined || begun.has(attempt(claim))) return;
    begun.add(attempt(claim));
    work.push(place(claim, node));
  };
  claims.subscribe({ added: look, updated: look });
  claims.start();
  await claims.synced;
  return {
    refused,
    stop: async () => {
      await claims.stop();
      await Promise.all(work);
    },
  };
}

/** One node is asked once for a claim, until it has refused. */
function attempt({ metadata }: PersistentVolumeClaim): string {
  return `${metadata.uid} ${metadata.annotations?.[SELECTED_NODE] ?? ""}`;
}

/** The LogicalVolume, its node's word on it, the node's figures and the PersistentVolume, at times that have nothing to do with each other. */
async function makeVolume(
  { client }: ObjectNodes,
  claim: PersistentVolumeClaim,
  node: string,
  bytes: number,
  report: () => Promise<void>,
): Promise<void> {
  const { namespace = "", name, uid = "" } = claim.metadata;
  const handle = volumeHandleOf(uid);
  const size = String(bytes);
  const made = await client.create("e2e/logical-volume", LOGICAL_VOLUMES, {
    apiVersion: API_VERSION,
    kind: "LogicalVolume",
    metadata: { name: handle },
    spec: { nodeName: node, deviceClass: OBJECT_DEVICE_CLASS, size, claimRef: { namespace, name, uid } },
  });
  const say = async (): Promise<void> => {
    await client.mergePatch(
      "e2e/logical-volume-status",
      LOGICAL_VOLUMES,
      { name: handle },
      { status: { volumeID: made.metadata.uid, currentSize: size } },
      "status",
    );
    await client.create("e2e/volume", PERSISTENT_VOLUMES, volumeOf(claim, node, handle));
  };
  const later = async (salt: number, what: () => Promise<void>): Promise<void> => {
    await sleep(lagMs(uid, salt));
    await what();
  };
  await Promise.all([later(1, say), later(2, report)]);
}

function lagMs(uid: string, salt: number): number {
  const digits = Number.parseInt(uid.replaceAll("-", "").slice(salt * 4, salt * 4 + 6), 16);
  return digits % LAG_LIMIT_MS;
}

function volumeOf(claim: PersistentVolumeClaim, node: string, handle: string): PersistentVolume {
  const { namespace, name, uid } = claim.metadata;
  const terms = [{ matchExpressions: [{ key: TOPOLOGY_NODE, operator: "In", values: [node] }] }];
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: `pvc-${uid}`, annotations: { "pv.kubernetes.io/provisioned-by": LOCAL_DRIVER } },
    spec: {
      capacity: { storage: claim.spec.resources?.requests?.storage ?? "0" },
      accessModes: claim.spec.accessModes,
      claimRef: { apiVersion: "v1", kind: "PersistentVolumeClaim", namespace, name, uid },
      csi: { driver: LOCAL_DRIVER, volumeHandle: handle },
      nodeAffinity: { required: { nodeSelectorTerms: terms } },
      persistentVolumeReclaimPolicy: "Delete",
      storageClassName: claim.spec.storageClassName ?? "",
      volumeMode: "Filesystem",
    },
  };
}

function nameOf({ metadata: { namespace = "", name } }: PersistentVolumeClaim): { namespace: string; name: string } {
  return { namespace, name };
}
