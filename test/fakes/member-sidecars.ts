// The csi-provisioner, csi-attacher and csi-resizer of members' drivers, and the PersistentVolume controller, as far as they show in
// the API: claims are bound and grown, attachments are marked and let go. What storage is behind them is the test's to say.

import { driverNamed } from "../../src/contracts/csi/driver.ts";
import {
  CSI_DRIVERS,
  CSI_NODES,
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolumeClaim,
  STORAGE_CLASSES,
  VOLUME_ATTACHMENTS,
  type VolumeAttachment,
} from "../../src/contracts/kubernetes/resources.ts";
import { MEMBER_NAMESPACE } from "../../src/contracts/names.ts";
import { parseQuantity } from "../../src/contracts/quantities/quantity.ts";
import { createReflector } from "../../src/platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../src/platform/kube/client/client.ts";
import type { Logger } from "../../src/platform/process/log.ts";

export const MEMBER_DRIVER = "member.example.com";
export const MEMBER_CLASS = "member-class";
const FINALIZER = "external-attacher/member-example-com";

export const ZONE_KEY = "zone.example.com";

/** A node where volumes of the zone can be attached; the driver makes them in the selected node's, in a where that has none. */
export async function createZoneNode(client: KubeClient, name: string, zone = "a"): Promise<void> {
  const metadata = { name, labels: { [ZONE_KEY]: zone } };
  await client.create("test/node", NODES, { apiVersion: "v1", kind: "Node", metadata });
}

/** The controller service of a driver; by default volumes are names. */
export interface MemberStorage {
  create(volumeHandle: string, sizeBytes: number): void;
  expand(volumeHandle: string, sizeBytes: number): void;
  remove(volumeHandle: string): void;
  /** What attaching tells the node. */
  context(attachment: VolumeAttachment): Record<string, string>;
}

const NO_STORAGE: MemberStorage = {
  create: () => {},
  expand: () => {},
  remove: () => {},
  context: ({ metadata, spec }) => ({ path: `/dev/${spec.nodeName}/${metadata.name}` }),
};

export interface MemberSidecars {
  /** While false, that sidecar does nothing; set back to true, `catchUp` does what was left. */
  binds: boolean;
  attaches: boolean;
  detaches: boolean;
  catchUp(): void;
  /** All three do again what they are there for. */
  resume(): void;
  stop(): Promise<void>;
}

export async function startMemberSidecars(
  client: KubeClient,
  log: Logger,
  storage: MemberStorage = NO_STORAGE,
): Promise<MemberSidecars> {
  await createDriver(client, MEMBER_DRIVER, true);
  await createMemberClass(client, MEMBER_CLASS, false);
  const claims = createReflector({
    client,
    resource: PERSISTENT_VOLUME_CLAIMS,
    log,
    select: { namespace: MEMBER_NAMESPACE },
  });
  const attachments = createReflector({ client, resource: VOLUME_ATTACHMENTS, log });
  let working: Promise<void> = Promise.resolve();
  const enqueue = (work: () => Promise<void>): void => {
    working = working.then(work).catch((error: unknown) => log.debug({ err: error }, "an object went away"));
  };
  const lookAtClaim = (claim: PersistentVolumeClaim): void => {
    if (sidecars.binds) enqueue(() => bindOrGrow(client, storage, claim));
  };
  const lookAtAttachment = (attachment: VolumeAttachment): void => {
    const leaves = attachment.metadata.deletionTimestamp !== undefined;
    if (leaves ? sidecars.detaches : sidecars.attaches)
      enqueue(() => (leaves ? detach(client, attachment) : attach(client, storage, attachment)));
  };
  const sidecars: MemberSidecars = {
    binds: true,
    attaches: true,
    detaches: true,
    catchUp: () => {
      for (const claim of claims.store.list()) lookAtClaim(claim);
      for (const attachment of attachments.store.list()) lookAtAttachment(attachment);
    },
    resume: () => {
      Object.assign(sidecars, { binds: true, attaches: true, detaches: true });
      sidecars.catchUp();
    },
    stop: async () => {
      await Promise.all([claims.stop(), attachments.stop()]);
      await working;
    },
  };
  claims.subscribe({
    added: lookAtClaim,
    updated: lookAtClaim,
    deleted: (claim) => enqueue(() => reclaim(client, storage, claim)),
  });
  attachments.subscribe({ added: lookAtAttachment, updated: lookAtAttachment });
  for (const reflector of [claims, attachments]) reflector.start();
  await Promise.all([claims.synced, attachments.synced]);
  return sidecars;
}

/** A node where the members' driver runs; slots: how many volumes it attaches there. Absent: as many as are asked for. */
export async function createMemberNode(client: KubeClient, name: string, slots?: number): Promise<void> {
  const allocatable = slots === undefined ? {} : { allocatable: { count: slots } };
  await client.create("test/csi-node", CSI_NODES, {
    apiVersion: "storage.k8s.io/v1",
    kind: "CSINode",
    metadata: { name },
    spec: { drivers: [{ name: MEMBER_DRIVER, nodeID: name, ...allocatable }] },
  });
}

export async function createDriver(client: KubeClient, name: string, attachRequired: boolean): Promise<void> {
  const driver = { apiVersion: "storage.k8s.io/v1", kind: "CSIDriver", metadata: { name }, spec: { attachRequired } };
  await client.create("test/csi-driver", CSI_DRIVERS, driver);
}

export async function createMemberClass(
  client: KubeClient,
  name: string,
  mayGrow: boolean,
  provisioner = MEMBER_DRIVER,
): Promise<void> {
  await client.create("test/storage-class", STORAGE_CLASSES, {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name },
    provisioner,
    allowVolumeExpansion: mayGrow,
    volumeBindingMode: "WaitForFirstConsumer",
  });
}

async function bindOrGrow(client: KubeClient, made: MemberStorage, stale: PersistentVolumeClaim): Promise<void> {
  const { namespace, name } = stale.metadata;
  const claim = await client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
  if (claim === undefined || claim.metadata.deletionTimestamp !== undefined) return;
  const storage = claim.spec.resources?.requests?.storage ?? "";
  if (claim.spec.volumeName !== undefined)
    return claim.status?.phase === "Bound"
      ? grow(client, made, claim.spec.volumeName, storage)
      : bindTo(client, claim, claim.spec.volumeName);
  const volumeName = `pvc-${claim.metadata.uid}`;
  const volumeHandle = `device-of-${name}`;
  made.create(volumeHandle, parseQuantity(storage));
  const selected = claim.metadata.annotations?.["volume.kubernetes.io/selected-node"] ?? "";
  const zone = (await client.get(NODES, { name: selected }))?.metadata.labels?.[ZONE_KEY] ?? "a";
  const driver = (await client.get(STORAGE_CLASSES, { name: claim.spec.storageClassName ?? "" }))?.provisioner ?? "";
  await client.create("test/persistent-volume", PERSISTENT_VOLUMES, {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: volumeName },
    spec: {
      capacity: { storage },
      accessModes: ["ReadWriteOnce"],
      persistentVolumeReclaimPolicy: "Delete",
      volumeMode: "Block",
      storageClassName: claim.spec.storageClassName,
      claimRef: { kind: "PersistentVolumeClaim", namespace, name, uid: claim.metadata.uid },
      csi: { driver, volumeHandle, volumeAttributes: { made: "by test" } },
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [{ matchExpressions: [{ key: ZONE_KEY, operator: "In", values: [zone] }] }],
        },
      },
    },
  });
  await client.mergePatch("test/bind", PERSISTENT_VOLUME_CLAIMS, { namespace, name }, { spec: { volumeName } });
  const status = { phase: "Bound", capacity: { storage } };
  await client.mergePatch("test/bound", PERSISTENT_VOLUME_CLAIMS, { namespace, name }, { status }, "status");
}

/** A claim that names its volume gets that one, if the volume waits for a claim of this name. */
async function bindTo(client: KubeClient, { metadata }: PersistentVolumeClaim, volumeName: string): Promise<void> {
  const { namespace, name, uid } = metadata;
  const volume = await client.get(PERSISTENT_VOLUMES, { name: volumeName });
  const { claimRef, capacity } = volume?.spec ?? {};
  if (claimRef?.namespace !== namespace || claimRef?.name !== name || claimRef?.uid !== undefined) return;
  await client.mergePatch("test/claim-ref", PERSISTENT_VOLUMES, { name: volumeName }, { spec: { claimRef: { uid } } });
  const status = { phase: "Bound", capacity };
  await client.mergePatch("test/bound", PERSISTENT_VOLUME_CLAIMS, { namespace, name }, { status }, "status");
}

async function grow(client: KubeClient, made: MemberStorage, name: string, storage: string): Promise<void> {
  const volume = await client.get(PERSISTENT_VOLUMES, { name });
  const present = volume?.spec.capacity?.storage;
  if (present === undefined || parseQuantity(present) >= parseQuantity(storage)) return;
  made.expand(volume?.spec.csi?.volumeHandle ?? "", parseQuantity(storage));
  await client.mergePatch("test/expand", PERSISTENT_VOLUMES, { name }, { spec: { capacity: { storage } } });
}

async function reclaim(
  client: KubeClient,
  made: MemberStorage,
  { metadata, spec }: PersistentVolumeClaim,
): Promise<void> {
  const name = spec.volumeName ?? `pvc-${metadata.uid}`;
  const volume = await client.get(PERSISTENT_VOLUMES, { name });
  if (volume === undefined || volume.spec.claimRef?.uid !== metadata.uid) return;
  if (volume.spec.persistentVolumeReclaimPolicy !== "Delete") {
    await client.mergePatch("test/release", PERSISTENT_VOLUMES, { name }, { status: { phase: "Released" } }, "status");
    return;
  }
  made.remove(volume.spec.csi?.volumeHandle ?? "");
  await client.delete("test/reclaim", PERSISTENT_VOLUMES, { name });
}

async function attach(client: KubeClient, storage: MemberStorage, attachment: VolumeAttachment): Promise<void> {
  const { metadata, spec, status } = attachment;
  const { name } = metadata;
  if (driverNamed(spec.attacher) !== undefined || status?.attached) return;
  await client.mergePatch("test/hold", VOLUME_ATTACHMENTS, { name }, { metadata: { finalizers: [FINALIZER] } });
  const attached = { attached: true, attachmentMetadata: storage.context(attachment) };
  await client.mergePatch("test/attached", VOLUME_ATTACHMENTS, { name }, { status: attached }, "status");
}

async function detach(client: KubeClient, { metadata: { name }, spec }: VolumeAttachment): Promise<void> {
  if (driverNamed(spec.attacher) !== undefined) return;
  await client.mergePatch("test/let-go", VOLUME_ATTACHMENTS, { name }, { metadata: { finalizers: null } });
}
