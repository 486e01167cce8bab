// The CSI drivers of this node that members of spans are of: where they listen, the Secrets that they want to be called with, and the calls
// of CSI Node, as kubelet would make them for a raw block volume. Each call is an effect with a deadline; what a driver refuses is thrown
// as StorageError with the driver's own words.

import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import {
  NodeClient,
  type NodeExpandVolumeRequest,
  type NodePublishVolumeRequest,
  type NodeStageVolumeRequest,
  type NodeServiceCapability_RPC_Type as Rpc,
} from "../../contracts/gen/csi/v1/csi.ts";
import { type PluginInfo, RegistrationClient } from "../../contracts/gen/pluginregistration/v1/registration.ts";
import { SECRETS } from "../../contracts/kubernetes/resources.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { Effects } from "../../platform/process/effects/effects.ts";
import { callAsEffect, SOCKET_OPTIONS } from "../../platform/process/grpc.ts";
import { StorageError } from "../storage/storage-error.ts";
import type { SecretReference } from "./span-member.ts";

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
 * Gives `use` the calls of a driver; once the signal aborts, no call is waited for. Throws StorageError: WaitingForMember when the driver
 * is not registered on this node or does not answer, MemberDriverFailed when it has refused.
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

/** What passes by itself: the driver does not answer, no caller waits any longer, or the same call is still under way. */
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

/**
 * Asked of the registration sockets that drivers show to kubelet, as kubelet asks them. An answer stays cached until its socket is gone;
 * drivers come and go at any time.
 */
export interface RegisteredDrivers {
  /** The path of the driver's CSI socket; undefined when no such driver is registered on this node. */
  socketOf(driver: string): Promise<string | undefined>;
}

const ANSWER_LIMIT_MS = 2000;
const PLUGIN_TYPE = "CSIPlugin";

interface Known {
  readonly registration: string;
  readonly inode: number;
  readonly endpoint: string;
}

export function createRegisteredDrivers(registrationDirectory: string): RegisteredDrivers {
  const known = new Map<string, Known>();
  return {
    socketOf: async (driver) => {
      const before = known.get(driver);
      if (before !== undefined && inodeOf(before.registration) === before.inode) return before.endpoint;
      // Two may look at the same time: what one has found the other one must not forget.
      const found = new Map<string, Known>();
      for (const registration of registrationSockets(registrationDirectory)) {
        const inode = inodeOf(registration);
        const plugin = await askPlugin(registration);
        if (plugin?.type !== PLUGIN_TYPE || inode === undefined) continue;
        found.set(plugin.name, { registration, inode, endpoint: plugin.endpoint.replace(/^unix:\/\//, "") });
      }
      known.clear();
      for (const [name, one] of found) known.set(name, one);
      return found.get(driver)?.endpoint;
    },
  };
}

/** Kubelet, too, leaves out what begins with a dot. */
function registrationSockets(directory: string): string[] {
  try {
    return readdirSync(directory, { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isSocket() && !entry.name.startsWith("."))
      .map((entry) => join(entry.parentPath, entry.name));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

function inodeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.ino;
}

/** Undefined when no process answers: a killed driver has left the socket. */
function askPlugin(socketPath: string): Promise<PluginInfo | undefined> {
  const client = new RegistrationClient(`unix://${socketPath}`, credentials.createInsecure(), SOCKET_OPTIONS);
  return new Promise<PluginInfo | undefined>((resolve) => {
    const options = { deadline: Date.now() + ANSWER_LIMIT_MS };
    client.getInfo({}, new Metadata(), options, (error, info) => resolve(error === null ? info : undefined));
  }).finally(() => client.close());
}

/**
 * Read at each call, stored nowhere, logged nowhere. By default the agent may read no Secret. An administrator who uses such a driver
 * allows it by a Role in the Secret's namespace (docs/reference/installation.md).
 */
export interface MemberSecrets {
  /** No reference: none are wanted. Throws StorageError MemberDriverFailed when it cannot be read. */
  read(reference: SecretReference | undefined): Promise<Record<string, string>>;
}

export function createMemberSecrets(client: Pick<KubeClient, "get">): MemberSecrets {
  return {
    read: async (reference) => {
      if (reference === undefined) return {};
      const { namespace, name } = reference;
      const secret = await client.get(SECRETS, { namespace, name }).catch((error: unknown) => {
        throw unreadable(reference, error instanceof Error ? error.message : String(error), error);
      });
      if (secret === undefined) throw unreadable(reference, "there is none");
      return Object.fromEntries(
        Object.entries(secret.data ?? {}).map(([key, value]) => [key, Buffer.from(value, "base64").toString("utf8")]),
      );
    },
  };
}

function unreadable({ namespace, name }: SecretReference, problem: string, cause?: unknown): StorageError {
  return new StorageError(
    "MemberDriverFailed",
    `let a Role in ${namespace} allow the agent to get Secret ${name}, if it is forbidden: ${problem}`,
    cause,
  );
}
