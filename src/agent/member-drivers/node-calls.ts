// The calls of CSI Node that a span makes to the driver of a member, as kubelet would make them for a raw block volume. Each
// is an effect with a deadline; what a driver refuses is thrown as StorageError with the driver's own words.
import { credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import {
  NodeClient,
  type NodeExpandVolumeRequest,
  type NodePublishVolumeRequest,
  type NodeStageVolumeRequest,
  type NodeServiceCapability_RPC_Type as Rpc,
} from "../../gen/csi/v1/csi.ts";
import type { Effects } from "../../process/effects.ts";
import { callAsEffect } from "../../process/grpc.ts";
import { StorageError } from "../storage/storage.ts";
import type { RegisteredDrivers } from "./registered-drivers.ts";
import { SOCKET_OPTIONS } from "./socket-options.ts";

export interface NodeCalls {
  readonly capabilities: ReadonlySet<Rpc>;
  stage(request: NodeStageVolumeRequest): Promise<void>;
  publish(request: NodePublishVolumeRequest): Promise<void>;
  unpublish(volumeId: string, targetPath: string): Promise<void>;
  unstage(volumeId: string, stagingTargetPath: string): Promise<void>;
  expand(request: NodeExpandVolumeRequest): Promise<void>;
}

/** Of each call. As kubelet's. */
const CALL_LIMIT_MS = 120_000;
const CAPABILITIES_LIMIT_MS = 10_000;

/**
 * Gives `use` the calls of a driver, none of which is waited for once the signal aborts. Throws StorageError: WaitingForMember when it is not registered on this node or does not
 * answer, MemberDriverFailed when it has refused.
 */
export async function withNodeCalls<T>(
  { drivers, effects }: { readonly drivers: RegisteredDrivers; readonly effects: Effects },
  driver: string,
  use: (calls: NodeCalls) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const socketPath = await drivers.socketOf(driver);
  if (socketPath === undefined)
    throw new StorageError(
      "WaitingForMember",
      `the CSI driver ${driver} is not registered on this node; see whether its node plugin runs here`,
    );
  const client = new NodeClient(`unix://${socketPath}`, credentials.createInsecure(), SOCKET_OPTIONS);
  try {
    return await use(callsOf(client, effects, driver, await capabilitiesOf(client, driver), signal));
  } finally {
    client.close();
  }
}

function callsOf(
  client: NodeClient,
  effects: Effects,
  driver: string,
  capabilities: ReadonlySet<Rpc>,
  signal: AbortSignal | undefined,
): NodeCalls {
  const metadata = new Metadata();
  const limitMs = CALL_LIMIT_MS;
  const answer = async (method: string, call: Promise<unknown>): Promise<void> => {
    await call.catch((error: unknown) => {
      throw refusalOf(driver, method, error);
    });
  };
  return {
    capabilities,
    stage: (request) => {
      const call = client.nodeStageVolume.bind(client);
      return answer(
        "NodeStageVolume",
        callAsEffect(effects, "span/stage-member", call, request, metadata, limitMs, signal),
      );
    },
    publish: (request) => {
      const call = client.nodePublishVolume.bind(client);
      return answer(
        "NodePublishVolume",
        callAsEffect(effects, "span/publish-member", call, request, metadata, limitMs, signal),
      );
    },
    unpublish: (volumeId, targetPath) => {
      const call = client.nodeUnpublishVolume.bind(client);
      const request = { volumeId, targetPath };
      return answer(
        "NodeUnpublishVolume",
        callAsEffect(effects, "span/unpublish-member", call, request, metadata, limitMs, signal),
      );
    },
    unstage: (volumeId, stagingTargetPath) => {
      const call = client.nodeUnstageVolume.bind(client);
      const request = { volumeId, stagingTargetPath };
      return answer(
        "NodeUnstageVolume",
        callAsEffect(effects, "span/unstage-member", call, request, metadata, limitMs, signal),
      );
    },
    expand: (request) => {
      const call = client.nodeExpandVolume.bind(client);
      return answer(
        "NodeExpandVolume",
        callAsEffect(effects, "span/expand-member", call, request, metadata, limitMs, signal),
      );
    },
  };
}

function capabilitiesOf(client: NodeClient, driver: string): Promise<ReadonlySet<Rpc>> {
  return new Promise((resolve, reject) => {
    const options = { deadline: Date.now() + CAPABILITIES_LIMIT_MS };
    client.nodeGetCapabilities({}, new Metadata(), options, (error, response) => {
      if (error !== null) reject(refusalOf(driver, "NodeGetCapabilities", error));
      else resolve(new Set(response.capabilities.flatMap(({ type }) => (type === undefined ? [] : [type.value.type]))));
    });
  });
}

/** What mends by itself: nobody answers, or is waited for any more, or the same call is still under way. */
const PASSING: readonly (status | undefined)[] = [
  status.UNAVAILABLE,
  status.DEADLINE_EXCEEDED,
  status.CANCELLED,
  status.ABORTED,
];

function refusalOf(driver: string, method: string, error: unknown): StorageError {
  const { code, details } = error as Partial<ServiceError>;
  const said = code === undefined ? String(error) : `${status[code]}: ${details}`;
  return new StorageError(
    PASSING.includes(code) ? "WaitingForMember" : "MemberDriverFailed",
    `the CSI driver ${driver} answered ${method} with ${said}; see the log of its node plugin on this node`,
    error,
  );
}
