// A node without disks: the CSI node service on a socket and the FilesystemLayout's status, by the rules of the real agent.
// Its members are numbers; what is staged and published is remembered for tests to read.
import { type handleUnaryCall, type ServiceError, status } from "@grpc/grpc-js";
import {
  type NodeExpandVolumeRequest,
  type NodeExpandVolumeResponse,
  type NodeGetVolumeStatsRequest,
  type NodeGetVolumeStatsResponse,
  type NodeServer,
  NodeService,
} from "../../src/contracts/gen/csi/v1/csi.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../src/contracts/kinds/filesystem-layout.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../src/contracts/names.ts";
import { formatQuantity, parseQuantity } from "../../src/contracts/quantities/quantity.ts";
import { createReflector } from "../../src/platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../src/platform/kube/client/client.ts";
import { serveOnSocket } from "../../src/platform/process/grpc.ts";
import type { Logger } from "../../src/platform/process/log.ts";

export interface FakeCsiNode {
  /** Member sizes on the node by volume handle. */
  readonly memberBytes: Map<string, number>;
  /** Staging paths by volume handle. */
  readonly staged: Map<string, string>;
  /** Target paths by volume handle. */
  readonly published: Map<string, string>;
  /** Calls of each method. */
  readonly calls: Map<string, number>;
  /** While set, every call is refused with it. */
  refuseWith: string | undefined;
  /** While set, the node says nothing: layouts are not reported on. */
  silent: boolean;
  stop(): Promise<void>;
}

export async function startFakeCsiNode(
  client: KubeClient,
  nodeName: string,
  socketPath: string,
  log: Logger,
): Promise<FakeCsiNode> {
  const layouts = createReflector({ client, resource: FILESYSTEM_LAYOUTS, log });
  const reports: Promise<void>[] = [];
  const node: FakeCsiNode = {
    memberBytes: new Map(),
    staged: new Map(),
    published: new Map(),
    calls: new Map(),
    refuseWith: undefined,
    silent: false,
    stop: async () => {
      await layouts.stop();
      await Promise.allSettled(reports);
      await server.close();
    },
  };
  const look = (layout: FilesystemLayout): void => {
    if (layout.spec.nodeName === nodeName && !node.silent) reports.push(carryOut(client, node, nodeName, layout, log));
  };
  layouts.subscribe({ added: look, updated: look });
  const implementation = nodeServer(node, (handle) => layouts.store.get(handle), look);
  const server = await serveOnSocket(socketPath, [{ definition: NodeService, implementation }]);
  layouts.start();
  await layouts.synced;
  return node;
}

/** Does what the layout asks for, and says so. */
async function carryOut(
  client: KubeClient,
  node: FakeCsiNode,
  nodeName: string,
  layout: FilesystemLayout,
  log: Logger,
): Promise<void> {
  const handle = layout.metadata.name;
  const members = layout.spec.members ?? [];
  const present = node.memberBytes.get(handle);
  const { target } = layout.spec;
  if (members.some(({ state }) => state === "Removed")) node.memberBytes.delete(handle);
  else if (present !== undefined && target !== undefined && parseQuantity(target.size) > present)
    node.memberBytes.set(handle, parseQuantity(target.size));
  const configuration = {
    apiVersion: API_VERSION,
    kind: "FilesystemLayout",
    metadata: { name: handle },
    status: layoutStatus(layout, node.memberBytes.get(handle), nodeName),
  };
  if (JSON.stringify(configuration.status.members) === JSON.stringify(layout.status?.members)) return;
  try {
    await client.apply("fake-node/status", FILESYSTEM_LAYOUTS, configuration, {
      fieldManager: FIELD_MANAGERS.agent,
      subresource: "status",
    });
  } catch (error) {
    log.debug({ err: error, handle }, "the layout went away");
  }
}

function layoutStatus({ spec }: FilesystemLayout, sizeBytes: number | undefined, nodeName: string) {
  const members = (spec.members ?? []).flatMap(({ name, state }) => {
    if (state === "Removed") return [{ name, size: "0", state: "Removed" }];
    return sizeBytes === undefined ? [] : [{ name, size: formatQuantity(sizeBytes), state: "Present" }];
  });
  return { nodeName, epoch: spec.target?.epoch ?? 0, members };
}

function nodeServer(
  node: FakeCsiNode,
  layoutOf: (handle: string) => FilesystemLayout | undefined,
  report: (layout: FilesystemLayout) => void,
): NodeServer {
  const serve =
    <Request, Response>(
      method: string,
      answer: (request: Request) => Response | Partial<ServiceError>,
    ): handleUnaryCall<Request, Response> =>
    (call, callback) => {
      node.calls.set(method, (node.calls.get(method) ?? 0) + 1);
      if (node.refuseWith !== undefined) return callback({ code: status.INTERNAL, details: node.refuseWith });
      const result = answer(call.request);
      if (typeof result === "object" && result !== null && "code" in result) callback(result);
      else callback(null, result as Response);
    };
  const refuse = (code: status, details: string): Partial<ServiceError> => ({ code, details });
  return {
    nodeStageVolume: serve("NodeStageVolume", ({ volumeId, stagingTargetPath }) => {
      const layout = layoutOf(volumeId);
      if (layout === undefined) return refuse(status.NOT_FOUND, `no layout ${volumeId}`);
      const size = layout.spec.members?.[0]?.size;
      if (!node.memberBytes.has(volumeId)) {
        if (size === undefined) return refuse(status.INTERNAL, `member of ${volumeId} is missing`);
        node.memberBytes.set(volumeId, parseQuantity(size));
      }
      node.staged.set(volumeId, stagingTargetPath);
      report(layout);
      return {};
    }),
    nodeUnstageVolume: serve("NodeUnstageVolume", ({ volumeId }) => {
      if (node.published.has(volumeId)) return refuse(status.FAILED_PRECONDITION, `${volumeId} is published`);
      node.staged.delete(volumeId);
      return {};
    }),
    nodePublishVolume: serve("NodePublishVolume", ({ volumeId, targetPath }) => {
      if (!node.staged.has(volumeId)) return refuse(status.FAILED_PRECONDITION, `${volumeId} is not staged`);
      node.published.set(volumeId, targetPath);
      return {};
    }),
    nodeUnpublishVolume: serve("NodeUnpublishVolume", ({ volumeId }) => {
      node.published.delete(volumeId);
      return {};
    }),
    nodeGetVolumeStats: serve<NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse>("NodeGetVolumeStats", () =>
      refuse(status.UNIMPLEMENTED, "no disks here"),
    ),
    nodeExpandVolume: serve<NodeExpandVolumeRequest, NodeExpandVolumeResponse>("NodeExpandVolume", () =>
      refuse(status.UNIMPLEMENTED, "never needed"),
    ),
    nodeGetCapabilities: serve("NodeGetCapabilities", () => ({ capabilities: [] })),
    nodeGetInfo: serve("NodeGetInfo", () => ({ nodeId: "", maxVolumesPerNode: 0, accessibleTopology: undefined })),
  };
}
