// The CSI services as the sidecars and kubelet call them: the operator's controller and the agent's node service, each on
// its unix socket. Calls are effects with a deadline; retrying is the caller's.
import { type Client, connectivityState, credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import {
  ControllerClient,
  type ControllerExpandVolumeRequest,
  type ControllerExpandVolumeResponse,
  type CreateVolumeRequest,
  type CreateVolumeResponse,
  NodeClient,
  type NodeExpandVolumeRequest,
  type NodePublishVolumeRequest,
  type NodeStageVolumeRequest,
  type NodeUnpublishVolumeRequest,
  type NodeUnstageVolumeRequest,
} from "../../src/contracts/gen/csi/v1/csi.ts";
import type { Effects } from "../../src/platform/process/effects/effects.ts";
import { callAsEffect } from "../../src/platform/process/grpc.ts";

/** The operator's service. Every method rejects with grpc-js' ServiceError. */
export interface ControllerPort {
  createVolume(request: CreateVolumeRequest): Promise<CreateVolumeResponse>;
  deleteVolume(volumeId: string): Promise<void>;
  expandVolume(request: ControllerExpandVolumeRequest): Promise<ControllerExpandVolumeResponse>;
  /** Called whenever the socket begins to answer, so that what waits for a back-off is tried at once. */
  onConnect(connected: () => void): void;
  close(): void;
}

/** The agent's service. Every method rejects with grpc-js' ServiceError. */
export interface NodePort {
  stage(request: NodeStageVolumeRequest): Promise<void>;
  publish(request: NodePublishVolumeRequest): Promise<void>;
  unpublish(request: NodeUnpublishVolumeRequest): Promise<void>;
  unstage(request: NodeUnstageVolumeRequest): Promise<void>;
  expand(request: NodeExpandVolumeRequest): Promise<void>;
  /** Called whenever the socket begins to answer: the agent may be a new process. */
  onConnect(connected: () => void): void;
  close(): void;
}

/** As csi-provisioner's --timeout in kustomize/base/operator; DeleteVolume waits for the node within it. */
const CONTROLLER_DEADLINE_MS = 60_000;
/** As kubelet's: mkfs and mount of a large volume fit in. */
const NODE_DEADLINE_MS = 120_000;
const CHANNEL_OPTIONS = { "grpc.initial_reconnect_backoff_ms": 100, "grpc.max_reconnect_backoff_ms": 1000 };

export function createControllerPort(socketPath: string, effects: Effects): ControllerPort {
  const client = new ControllerClient(`unix://${socketPath}`, credentials.createInsecure(), CHANNEL_OPTIONS);
  const metadata = new Metadata();
  return {
    createVolume: (request) =>
      callAsEffect(
        effects,
        "provisioner/create-volume",
        client.createVolume.bind(client),
        request,
        metadata,
        CONTROLLER_DEADLINE_MS,
      ),
    deleteVolume: async (volumeId) => {
      const request = { volumeId, secrets: {} };
      const call = client.deleteVolume.bind(client);
      await callAsEffect(effects, "provisioner/delete-volume", call, request, metadata, CONTROLLER_DEADLINE_MS);
    },
    expandVolume: (request) =>
      callAsEffect(
        effects,
        "resizer/expand-volume",
        client.controllerExpandVolume.bind(client),
        request,
        metadata,
        CONTROLLER_DEADLINE_MS,
      ),
    onConnect: (connected) => watchConnection(client, connected),
    close: () => client.close(),
  };
}

export function createNodePort(socketPath: string, effects: Effects): NodePort {
  const client = new NodeClient(`unix://${socketPath}`, credentials.createInsecure(), CHANNEL_OPTIONS);
  const metadata = new Metadata();
  const limitMs = NODE_DEADLINE_MS;
  return {
    stage: async (request) => {
      const call = client.nodeStageVolume.bind(client);
      await callAsEffect(effects, "kubelet/stage", call, request, metadata, limitMs);
    },
    publish: async (request) => {
      const call = client.nodePublishVolume.bind(client);
      await callAsEffect(effects, "kubelet/publish", call, request, metadata, limitMs);
    },
    unpublish: async (request) => {
      const call = client.nodeUnpublishVolume.bind(client);
      await callAsEffect(effects, "kubelet/unpublish", call, request, metadata, limitMs);
    },
    unstage: async (request) => {
      const call = client.nodeUnstageVolume.bind(client);
      await callAsEffect(effects, "kubelet/unstage", call, request, metadata, limitMs);
    },
    expand: async (request) => {
      const call = client.nodeExpandVolume.bind(client);
      await callAsEffect(effects, "resizer/expand-on-node", call, request, metadata, limitMs);
    },
    onConnect: (connected) => watchConnection(client, connected),
    close: () => client.close(),
  };
}

function watchConnection(client: Client, connected: () => void): void {
  const channel = client.getChannel();
  const look = (before: connectivityState | undefined): void => {
    const state = channel.getConnectivityState(true);
    if (state === connectivityState.SHUTDOWN) return;
    if (state === connectivityState.READY && before !== connectivityState.READY) connected();
    channel.watchConnectivityState(state, Number.POSITIVE_INFINITY, (error) => {
      if (error === undefined) look(state);
    });
  };
  look(undefined);
}

/**
 * A gRPC failure as the sidecars print it in their Events. What fails outside of a call, such as ENOTEMPTY of a directory, has a code, too:
 * its message says it.
 */
export function describeCallError(error: unknown): string {
  const { code, details } = error as Partial<ServiceError>;
  if (typeof code !== "number") return error instanceof Error ? error.message : String(error);
  return `rpc error: code = ${status[code]} desc = ${details}`;
}
