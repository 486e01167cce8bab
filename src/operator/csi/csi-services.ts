// The CSI Identity and Controller services of one of our drivers, as they stand on its socket. Any replica serves them: they
// write down what shall be. Only volumes that move from node to node are published; a local one is on its node.
import type { handleUnaryCall } from "@grpc/grpc-js";
import type { Driver } from "../../contracts/csi/driver.ts";
import { Refusal } from "../../contracts/csi/refusal.ts";
import {
  type ControllerServer,
  ControllerService,
  ControllerServiceCapability_RPC_Type as Rpc,
} from "../../contracts/gen/csi/v1/csi.ts";
import { shownVolumeId } from "../../contracts/identity.ts";
import { createIdentity } from "../../platform/csi/identity.ts";
import { type Serving, unaryMethod } from "../../platform/csi/unary-method.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import type { KeyedQueue } from "../../platform/process/async/keyed-queue.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { GrpcService } from "../../platform/process/grpc.ts";
import type { MemberHome } from "../apply/member-home.ts";
import type { LayoutWriter } from "../apply/volume-objects.ts";
import { createCacheWait, type LayoutWatch, type VolumeChanges } from "../gather/cache-waits.ts";
import type { VolumeCaches } from "../gather/volume-caches.ts";
import { MAKING_WAIT_LIMIT_MS } from "../lvm/make-logical-volume.ts";
import { MEMBER_WAIT_LIMIT_MS } from "./create/create-span.ts";
import { type Creating, createVolume } from "./create/create-volume.ts";
import { type Expanding, expandVolume } from "./expand-volume.ts";
import {
  DETACH_WAIT_LIMIT_MS,
  publishVolume,
  RELEASE_WAIT_LIMIT_MS,
  type Unpublishing,
  unpublishVolume,
} from "./publication.ts";
import { getCapacity, getSpanCapacity, listVolumes, validateVolume } from "./read-calls.ts";
import { type Deleting, deleteVolume } from "./remove/delete-volume.ts";
import { REMOVAL_WAIT_LIMIT_MS } from "./remove/remove-volume.ts";
import { createSnapshot, type DeletingSnapshot, deleteSnapshot, type Snapshotting } from "./snapshots.ts";

interface CsiServicesOptions {
  readonly driver: Driver;
  readonly serving: Serving;
  readonly clock: Clock;
  readonly client: KubeClient;
  readonly caches: Pick<VolumeCaches, "layouts" | "persistentVolumes" | "logicalVolumes">;
  readonly events: EventRecorder;
  readonly layouts: LayoutWriter;
  readonly watch: LayoutWatch;
  readonly changes: VolumeChanges;
  readonly turns: KeyedQueue;
  readonly home: MemberHome;
  readonly budgetBytes: number;
  /** False until the caches are filled: Probe says so, and the sidecars wait. */
  readonly isReady: () => boolean;
}

export function createCsiServices(options: CsiServicesOptions): GrpcService[] {
  return [
    createIdentity(options.serving, options.driver, options.isReady),
    { definition: ControllerService, implementation: controllerServer(options) },
  ];
}

const CAPABILITIES = [
  Rpc.CREATE_DELETE_VOLUME,
  Rpc.EXPAND_VOLUME,
  Rpc.LIST_VOLUMES,
  Rpc.GET_CAPACITY,
  Rpc.SINGLE_NODE_MULTI_WRITER,
] as const;

function capabilitiesOf({ attaches, backends }: Driver): readonly Rpc[] {
  return [
    ...CAPABILITIES,
    ...(attaches ? [Rpc.PUBLISH_UNPUBLISH_VOLUME] : []),
    ...(backends.includes("lvm") ? [Rpc.CREATE_DELETE_SNAPSHOT, Rpc.CLONE_VOLUME] : []),
  ];
}

/** What the calls are answered with; each says by its own type what it takes of it. */
type Answering = CsiServicesOptions & Creating & Deleting & Expanding & Unpublishing & Snapshotting & DeletingSnapshot;

function answeringWith(options: CsiServicesOptions): Answering {
  return {
    ...options,
    logicalVolumes: options.caches.logicalVolumes,
    logicalVolumeChange: createCacheWait(options.caches.logicalVolumes),
    makingWaitLimitMs: MAKING_WAIT_LIMIT_MS,
    memberWaitLimitMs: MEMBER_WAIT_LIMIT_MS,
    removalWaitLimitMs: REMOVAL_WAIT_LIMIT_MS,
    releaseWaitLimitMs: RELEASE_WAIT_LIMIT_MS,
    detachWaitLimitMs: DETACH_WAIT_LIMIT_MS,
  };
}

function controllerServer(options: CsiServicesOptions): ControllerServer {
  const { serving, driver, client, caches } = options;
  const answering = answeringWith(options);
  const alone = createOneAtATime();
  return {
    createVolume: unaryMethod(serving, "CreateVolume", (request) =>
      alone(request.name, () => createVolume(answering, request)),
    ),
    deleteVolume: unaryMethod(serving, "DeleteVolume", ({ volumeId }) =>
      alone(volumeId, () => deleteVolume(answering, volumeId)),
    ),
    controllerExpandVolume: unaryMethod(serving, "ControllerExpandVolume", (request) =>
      alone(request.volumeId, () => expandVolume(answering, request)),
    ),
    validateVolumeCapabilities: unaryMethod(serving, "ValidateVolumeCapabilities", (request) =>
      validateVolume(client, request),
    ),
    listVolumes: unaryMethod(serving, "ListVolumes", async (request) =>
      options.isReady() ? listVolumes(caches.layouts.store, driver, request) : refuseNotReady(),
    ),
    ...publication(answering, alone),
    ...snapshots(answering, alone),
    getCapacity: unaryMethod(serving, "GetCapacity", async (request) =>
      driver.attaches ? getSpanCapacity(client, driver, request) : getCapacity(client, driver, request),
    ),
    controllerGetCapabilities: unaryMethod(serving, "ControllerGetCapabilities", async () => ({
      capabilities: capabilitiesOf(driver).map((type) => ({ type: { $case: "rpc", value: { type } } })),
    })),
    ...notOffered(serving, driver),
  };
}

function publication(
  answering: Answering,
  alone: OneAtATime,
): Pick<ControllerServer, "controllerPublishVolume" | "controllerUnpublishVolume"> {
  const { serving, driver } = answering;
  return {
    controllerPublishVolume: unaryMethod(serving, "ControllerPublishVolume", async (request) =>
      driver.attaches
        ? alone(request.volumeId, () => publishVolume(answering, request))
        : refuseNotOffered(driver, NO_ATTACH),
    ),
    controllerUnpublishVolume: unaryMethod(serving, "ControllerUnpublishVolume", async (request) =>
      driver.attaches
        ? alone(request.volumeId, () => unpublishVolume(answering, request))
        : refuseNotOffered(driver, NO_ATTACH),
    ),
  };
}

function snapshots(
  answering: Answering,
  alone: OneAtATime,
): Pick<ControllerServer, "createSnapshot" | "deleteSnapshot"> {
  const { serving, driver } = answering;
  const isOffered = driver.backends.includes("lvm");
  return {
    createSnapshot: unaryMethod(serving, "CreateSnapshot", async (request) =>
      isOffered
        ? alone(request.name, () => createSnapshot(answering, request))
        : refuseNotOffered(driver, NO_SNAPSHOTS),
    ),
    deleteSnapshot: unaryMethod(serving, "DeleteSnapshot", async ({ snapshotId }) =>
      isOffered
        ? alone(snapshotId, () => deleteSnapshot(answering, snapshotId))
        : refuseNotOffered(driver, NO_SNAPSHOTS),
    ),
  };
}

function refuseNotOffered({ name }: Driver, why: string): never {
  throw new Refusal("UNIMPLEMENTED", `${name}: ${why}`);
}

function refuseNotReady(): never {
  throw new Refusal("UNAVAILABLE", "the first list from the API server is not complete; try again in a second");
}

const NO_ATTACH = "local volumes are on their node and need no attach";
const NO_SNAPSHOTS = "snapshots are the backend lvm's";
const NO_SNAPSHOT_LISTS = "a snapshot is ready once CreateSnapshot has answered, and needs no list";

type NotOffered = Pick<
  ControllerServer,
  "listSnapshots" | "getSnapshot" | "controllerGetVolume" | "controllerModifyVolume"
>;

/** What the capabilities do not declare. */
function notOffered(serving: Serving, driver: Driver): NotOffered {
  const refuse = <Request extends object, Response>(method: string, why: string): handleUnaryCall<Request, Response> =>
    unaryMethod<Request, Response>(serving, method, async () => refuseNotOffered(driver, why));
  return {
    listSnapshots: refuse("ListSnapshots", NO_SNAPSHOT_LISTS),
    getSnapshot: refuse("GetSnapshot", NO_SNAPSHOT_LISTS),
    controllerGetVolume: refuse(
      "ControllerGetVolume",
      "a volume's condition comes from its node; use NodeGetVolumeStats",
    ),
    controllerModifyVolume: refuse("ControllerModifyVolume", "VolumeAttributesClasses change nothing of a volume"),
  };
}

/**
 * Calls for one volume never overlap on one replica, as the CSI specification asks: the second gets ABORTED, and the client retries. Runs the
 * call unless another one for this volume (its id, before that its name) is under way. Throws Refusal.
 */
type OneAtATime = <T>(volume: string, answer: () => Promise<T>) => Promise<T>;

export function createOneAtATime(): OneAtATime {
  const busy = new Set<string>();
  return async (volume, answer) => {
    if (busy.has(volume))
      throw new Refusal("ABORTED", `another call for volume "${shownVolumeId(volume)}" is under way`);
    busy.add(volume);
    try {
      return await answer();
    } finally {
      busy.delete(volume);
    }
  };
}
