// CreateVolume: writes down what shall be, on the FilesystemLayout and the Filesystem, and touches no storage. Repeated
// after a crash at any line it ends in the same two objects and the same answer.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import { FIELD_MANAGERS, TOPOLOGY_NODE } from "../../api/names.ts";
import type { CreateVolumeRequest, CreateVolumeResponse } from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client.ts";
import { CSI_NODES, PERSISTENT_VOLUME_CLAIMS } from "../../kube/resources.ts";
import { writeFilesystem } from "../volume/filesystem-writer.ts";
import { newLayout } from "../volume/layout-fields.ts";
import { type VolumeRecord, volumeContextOf } from "../volume/volume-record.ts";
import { refusalOfExisting } from "./existing-volume.ts";
import { leastUsedNode, requestedNode } from "./placement.ts";
import { Refusal } from "./refusal.ts";
import { orderOf } from "./volume-order.ts";

const APPLY = { fieldManager: FIELD_MANAGERS.operator, force: true } as const;

export async function createVolume(
  client: KubeClient,
  request: CreateVolumeRequest,
): Promise<CreateVolumeResponse | Refusal> {
  const order = orderOf(request);
  if (order instanceof Refusal) return order;
  const existing = await client.get(FILESYSTEM_LAYOUTS, { name: order.handle });
  const refusal = existing && refusalOfExisting(existing, order, request.accessibilityRequirements);
  if (refusal !== undefined) return refusal;
  const nodeName = existing?.spec.nodeName ?? (await chooseNode(client, request));
  if (nodeName instanceof Refusal) return nodeName;

  const claimUID = order.claimUID ?? (await client.get(PERSISTENT_VOLUME_CLAIMS, order.claim))?.metadata.uid;
  const record: VolumeRecord = { ...order, nodeName, claim: { ...order.claim, uid: claimUID ?? order.volumeUID } };
  // The Filesystem first: where it cannot be written (its namespace is gone) no layout is left without an owner.
  await writeFilesystem(client, record.claim, claimUID !== undefined);
  if (existing === undefined) {
    const layout = newLayout(record, order.memberBytes, "Present");
    await client.apply("create-volume/layout", FILESYSTEM_LAYOUTS, layout, APPLY);
  }
  return responseOf(record, order.requestedBytes);
}

async function chooseNode(client: KubeClient, request: CreateVolumeRequest): Promise<string | Refusal> {
  const asked = requestedNode(request.accessibilityRequirements);
  if (asked !== undefined) return asked;
  const [nodes, layouts] = await Promise.all([client.list(CSI_NODES), client.list(FILESYSTEM_LAYOUTS)]);
  return leastUsedNode(nodes.items, countByNode(layouts.items));
}

function countByNode(layouts: readonly FilesystemLayout[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { spec } of layouts) {
    if (spec.nodeName !== undefined) counts.set(spec.nodeName, (counts.get(spec.nodeName) ?? 0) + 1);
  }
  return counts;
}

function responseOf(record: VolumeRecord, requestedBytes: number): CreateVolumeResponse {
  return {
    volume: {
      capacityBytes: requestedBytes,
      volumeId: record.handle,
      volumeContext: volumeContextOf(record),
      contentSource: undefined,
      accessibleTopology: [{ segments: { [TOPOLOGY_NODE]: record.nodeName } }],
    },
  };
}
