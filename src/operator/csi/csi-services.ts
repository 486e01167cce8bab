// The CSI Identity and Controller services of one of our drivers, as they stand on its socket. Any replica serves them: they
// write down what shall be. Only volumes that move from node to node are published; a local one is on its node.
import type { handleUnaryCall } from "@grpc/grpc-js";
import type { Driver } from "../../csi/driver.ts";
import { createIdentity } from "../../csi/identity.ts";
import { Refusal } from "../../csi/refusal.ts";
import { type Serving, unaryMethod } from "../../csi/unary-method.ts";
import {
  type ControllerServer,
  ControllerService,
  ControllerServiceCapability_RPC_Type as Rpc,
} from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import type { EventRecorder } from "../../kube/events/events.ts";
import type { Clock } from "../../process/clock.ts";
import type { GrpcService } from "../../process/grpc.ts";
import { MAKING_WAIT_LIMIT_MS } from "../lvm/make-logical-volume.ts";
import type { MemberHome } from "../member/member-home.ts";
import type { Turns } from "../member/turns.ts";
import { createCacheWait } from "../volume/cache-wait.ts";
import type { LayoutWatch } from "../volume/layout-watch.ts";
import type { LayoutWriter } from "../volume/layout-writer.ts";
import type { VolumeCaches } from "../volume/volume-caches.ts";
import type { VolumeChanges } from "../volume/volume-changes.ts";
import { createSnapshot, type Snapshotting } from "./create-snapshot.ts";
import { MEMBER_WAIT_LIMIT_MS } from "./create-span.ts";
import { createVolume } from "./create-volume.ts";
import { type DeletingSnapshot, deleteSnapshot } from "./delete-snapshot.ts";
import { deleteVolume } from "./delete-volume.ts";
import { expandVolume } from "./expand-volume.ts";
import { getCapacity } from "./get-capacity.ts";
import { getSpanCapacity } from "./get-span-capacity.ts";
import { listVolumes } from "./list-volumes.ts";
import { createOneAtATime, type OneAtATime } from "./one-at-a-time.ts";
import { publishVolume } from "./publish-volume.ts";
import { REMOVAL_WAIT_LIMIT_MS } from "./remove-volume.ts";
import { DETACH_WAIT_LIMIT_MS, RELEASE_WAIT_LIMIT_MS, unpublishVolume } from "./unpublish-volume.ts";
import { validateVolume } from "./validate-volume.ts";

export interface CsiServicesOptions {
  readonly driver: Driver;
  readonly serving: Serving;
  readonly clock: Clock;
  readonly client: KubeClient;
  readonly caches: Pick<VolumeCaches, "layouts" | "persistentVolumes" | "logicalVolumes">;
  readonly events: EventRecorder;
  readonly layouts: LayoutWriter;
  readonly watch: LayoutWatch;
  readonly changes: VolumeChanges;
  readonly turns: Turns;
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

function controllerServer(options: CsiServicesOptions): ControllerServer {
  const { serving, driver, client, caches, layouts, watch, changes, turns, home, clock, budgetBytes } = options;
  const alone = createOneAtATime();
  const shared = { client, layouts, turns, home, budgetBytes };
  const removing = { caches, watch, events: options.events, removalWaitLimitMs: REMOVAL_WAIT_LIMIT_MS };
  const making = {
    logicalVolumes: caches.logicalVolumes,
    logicalVolumeChange: createCacheWait(caches.logicalVolumes),
    makingWaitLimitMs: MAKING_WAIT_LIMIT_MS,
  };
  const creating = { ...shared, ...removing, ...making, driver, changes, memberWaitLimitMs: MEMBER_WAIT_LIMIT_MS };
  const deleting = { client, layouts, changes, home, ...removing };
  const expanding = { ...shared, caches, clock };
  return {
    createVolume: unaryMethod(serving, "CreateVolume", (request) =>
      alone(request.name, () => createVolume(creating, request)),
    ),
    deleteVolume: unaryMethod(serving, "DeleteVolume", ({ volumeId }) =>
      alone(volumeId, () => deleteVolume(deleting, volumeId)),
    ),
    controllerExpandVolume: unaryMethod(serving, "ControllerExpandVolume", (request) =>
      alone(request.volumeId, () => expandVolume(expanding, request)),
    ),
    validateVolumeCapabilities: unaryMethod(serving, "ValidateVolumeCapabilities", (request) =>
      validateVolume(client, request),
    ),
    listVolumes: unaryMethod(serving, "ListVolumes", async (request) =>
      options.isReady() ? listVolumes(caches.layouts.store, driver, request) : notReady(),
    ),
    ...publication(options, alone),
    ...snapshots(options, alone, {
      client,
      caches,
      ...making,
      events: options.events,
      removalWaitLimitMs: REMOVAL_WAIT_LIMIT_MS,
    }),
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
  { serving, driver, client, caches, layouts, changes }: CsiServicesOptions,
  alone: OneAtATime,
): Pick<ControllerServer, "controllerPublishVolume" | "controllerUnpublishVolume"> {
  const unpublishing = {
    client,
    layouts,
    changes,
    releaseWaitLimitMs: RELEASE_WAIT_LIMIT_MS,
    detachWaitLimitMs: DETACH_WAIT_LIMIT_MS,
  };
  return {
    controllerPublishVolume: unaryMethod(serving, "ControllerPublishVolume", async (request) =>
      driver.attaches
        ? alone(request.volumeId, () => publishVolume({ client, caches, layouts }, request))
        : notOfferedBy(driver, NO_ATTACH),
    ),
    controllerUnpublishVolume: unaryMethod(serving, "ControllerUnpublishVolume", async (request) =>
      driver.attaches
        ? alone(request.volumeId, () => unpublishVolume(unpublishing, request))
        : notOfferedBy(driver, NO_ATTACH),
    ),
  };
}

function snapshots(
  { serving, driver }: CsiServicesOptions,
  alone: OneAtATime,
  parts: Snapshotting & DeletingSnapshot,
): Pick<ControllerServer, "createSnapshot" | "deleteSnapshot"> {
  const isOffered = driver.backends.includes("lvm");
  return {
    createSnapshot: unaryMethod(serving, "CreateSnapshot", async (request) =>
      isOffered ? alone(request.name, () => createSnapshot(parts, request)) : notOfferedBy(driver, NO_SNAPSHOTS),
    ),
    deleteSnapshot: unaryMethod(serving, "DeleteSnapshot", async ({ snapshotId }) =>
      isOffered ? alone(snapshotId, () => deleteSnapshot(parts, snapshotId)) : notOfferedBy(driver, NO_SNAPSHOTS),
    ),
  };
}

function notOfferedBy({ name }: Driver, why: string): Refusal {
  return new Refusal("UNIMPLEMENTED", `${name}: ${why}`);
}

function notReady(): Refusal {
  return new Refusal("UNAVAILABLE", "the first list from the API server is not complete; try again in a second");
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
    unaryMethod<Request, Response>(serving, method, async () => notOfferedBy(driver, why));
  return {
    listSnapshots: refuse("ListSnapshots", NO_SNAPSHOT_LISTS),
    getSnapshot: refuse("GetSnapshot", NO_SNAPSHOT_LISTS),
    controllerGetVolume: refuse("ControllerGetVolume", "a volume's condition is told by its node (NodeGetVolumeStats)"),
    controllerModifyVolume: refuse("ControllerModifyVolume", "VolumeAttributesClasses change nothing of a volume"),
  };
}
