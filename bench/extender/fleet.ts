// A large cluster for the extender, as its API server lists it: nodes, volumes that are there, and claims that wait for a node. Objects are
// as bulky as real ones, since what is kept of them is what is measured.

import type { Node } from "../../src/contracts/kubernetes/resources.ts";
import { LOCAL_DRIVER } from "../../src/contracts/names.ts";
import {
  buildAttachment,
  buildClaim,
  buildClass,
  buildCsiNode,
  buildLogicalVolume,
  buildNode,
  buildNodeStorage,
  buildPod,
  buildVolume,
  uidOf,
} from "../../test/builders/placement.ts";
import type { Listed } from "./list-server.ts";

export const NODES = 5000;
export const VOLUMES = 50_000;
/** Of the claims that wait: each node has room for so many. */
export const ROOM = 4;
const SIZE_GIB = 10;
const DAY_AGO_MS = 86_400_000;

export function nodeName(index: number): string {
  return `node-${String(index).padStart(4, "0")}.example.internal`;
}

/** Volumes 0 to VOLUMES - 1 are there, each on its node; the claims from VOLUMES on wait. */
export function fleetOf(waiting: number): Readonly<Record<string, Listed>> {
  const createdMs = Date.now() - DAY_AGO_MS;
  const nodeOf = (index: number): string => nodeName(index % NODES);
  const handleOf = (index: number): string => `fs-${uidOf(index)}`;
  return {
    storageclasses: { count: 1, object: () => bulky(buildClass("lvm", { backend: "lvm" })) },
    nodes: { count: NODES, object: (index) => bulky(nodeWithImages(nodeName(index))) },
    csinodes: { count: NODES, object: (index) => bulky(buildCsiNode(nodeName(index))) },
    nodestorages: {
      count: NODES,
      object: (index) =>
        bulky(
          buildNodeStorage(nodeName(index), {
            free: `${ROOM * SIZE_GIB}Gi`,
            size: "1Ti",
            ioUtilization: 10 * (index % 10),
          }),
        ),
    },
    persistentvolumes: {
      count: VOLUMES,
      object: (index) =>
        bulky(
          buildVolume(`pvc-${uidOf(index)}`, LOCAL_DRIVER, handleOf(index), {
            "topology.tidemark.dev/node": nodeOf(index),
          }),
        ),
    },
    persistentvolumeclaims: {
      count: VOLUMES + waiting,
      object: (index) => bulky(buildClaim(index, index < VOLUMES ? { volumeName: `pvc-${uidOf(index)}` } : {})),
    },
    pods: {
      count: VOLUMES + waiting,
      object: (index) => bulky(buildPod(index, [`claim-${index}`], index < VOLUMES ? nodeOf(index) : undefined)),
    },
    logicalvolumes: {
      count: VOLUMES,
      object: (index) => bulky(buildLogicalVolume(index, nodeOf(index), { isMade: true, createdMs })),
    },
    volumeattachments: {
      count: VOLUMES / 5,
      object: (index) => bulky(buildAttachment(`disk-${index}`, nodeOf(index))),
    },
    filesystemlayouts: { count: VOLUMES, object: (index) => bulky(layoutOf(index, nodeOf(index))) },
  };
}

function layoutOf(index: number, node: string) {
  const size = `${SIZE_GIB}Gi`;
  const logicalVolume = { name: `fs-${uidOf(index)}`, volumeID: `lv-${index}`, deviceClass: "ssd" };
  return {
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "FilesystemLayout",
    metadata: { name: `fs-${uidOf(index)}`, uid: `layout-${index}` },
    spec: {
      backend: "lvm",
      fsType: "btrfs",
      nodeName: node,
      members: [{ name: "m0", size, source: { logicalVolume } }],
    },
    status: { nodeName: node, mounted: true, members: [{ name: "m0", size, state: "Present" }] },
  };
}

function nodeWithImages(name: string): Node & { status: object } {
  const labels = Object.fromEntries(
    Array.from({ length: 20 }, (_, index) => [`example.com/label-${index}`, `value-${index}`]),
  );
  const images = Array.from({ length: 50 }, (_, index) => ({
    names: [`registry.example/team/image-${index}@sha256:${"0".repeat(64)}`],
    sizeBytes: 100_000_000 + index,
  }));
  return { ...buildNode(name, { labels }), status: { images } };
}

/** With what every object has and the extender does not read. */
function bulky<T extends { metadata: object }>(object: T): T {
  const managedFields = Array.from({ length: 3 }, (_, index) => ({
    manager: `manager-${index}`,
    operation: "Apply",
    fieldsV1: { "f:metadata": { "f:labels": { "f:a": {}, "f:b": {}, "f:c": {} } }, "f:spec": { "f:x": {}, "f:y": {} } },
  }));
  const annotations = {
    "example.com/notes": "x".repeat(300),
    ...(object.metadata as { annotations?: object }).annotations,
  };
  return { ...object, metadata: { ...object.metadata, resourceVersion: "1", annotations, managedFields } };
}
