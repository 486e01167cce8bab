// The part of CreateVolume that is a span's: it makes the first member and waits until that can be used; then the
// volume can. A permanent failure leaves nothing behind, since no process would ever delete it.
import { driverNamed } from "../../../contracts/csi/driver.ts";
import { invalidArgument, Refusal } from "../../../contracts/csi/refusal.ts";
import type { Topology } from "../../../contracts/gen/csi/v1/csi.ts";
import type { FilesystemLayout, MemberSpec } from "../../../contracts/kinds/filesystem-layout.ts";
import {
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolumeClaim,
  STORAGE_CLASSES,
  type StorageClass,
} from "../../../contracts/kubernetes/resources.ts";
import { SELECTED_NODE_ANNOTATION } from "../../../contracts/names.ts";
import type { KubeClient } from "../../../platform/kube/client/client.ts";
import { isKubeError } from "../../../platform/kube/kube-error.ts";
import type { KeyedQueue } from "../../../platform/process/async/keyed-queue.ts";
import { type Placing, UnsafeHomeError } from "../../apply/member-home.ts";
import { createMemberClaim, ForeignClaimError, keepVolume } from "../../apply/member-steps.ts";
import { tearDownSpan } from "../../apply/tear-down-span.ts";
import { type LayoutWriter, makeLayout, readLayout } from "../../apply/volume-objects.ts";
import { boundSource } from "../../decide/decide-member.ts";
import { newMember } from "../../decide/members/changed-members.ts";
import { quotaMessage } from "../../decide/members/member-bytes.ts";
import {
  allowedTopologies,
  describeTopologies,
  isWithin,
  sharedTopologies,
  topologiesOf,
} from "../../decide/volume-topology.ts";
import type { VolumeChanges } from "../../gather/cache-waits.ts";
import { type ClaimTrouble, claimTrouble } from "../../gather/member-facts.ts";
import { listOfClass, readMemberQuota } from "../../gather/member-room.ts";
import { newLayout } from "../../volumes/layout-fields.ts";
import { keptVolume, unfitVolume } from "../../volumes/member-objects.ts";
import { isOurVolume, type VolumeRecord } from "../../volumes/volume-record.ts";
import { removeVolume } from "../remove/remove-volume.ts";

export interface CreatingSpan extends Placing {
  readonly layouts: LayoutWriter;
  readonly changes: VolumeChanges;
  readonly turns: KeyedQueue;
  /** What a namespace may have of a members' class where no ResourceQuota says it. */
  readonly budgetBytes: number;
  /** How long one call waits for the member. */
  readonly memberWaitLimitMs: number;
}

/** Under csi-provisioner's timeout of 30 s (kustomize/base), after which it would ask again anyway. */
export const MEMBER_WAIT_LIMIT_MS = 20_000;

export interface SpanOrder {
  readonly record: VolumeRecord;
  readonly existing: FilesystemLayout | undefined;
  readonly memberBytes: number;
  /** The scheduler's choice, or ours: for member classes that wait for a consumer. */
  readonly selectedNode: string;
  /** Where the request lets it be, if it names no node; none: anywhere. */
  readonly places: readonly Topology[];
}

const FIRST_MEMBER = 0;

/** Where the volume can be used. Throws Refusal and KubeError. */
export async function createSpan(creating: CreatingSpan, order: SpanOrder): Promise<Topology[]> {
  const { client } = creating;
  await requireClass(client, order);
  const { namespace } = order.record.claim;
  const layout = order.existing ?? (await creating.turns.run(namespace, () => orderLayout(creating, order)));
  const first = layout.spec.members?.[0];
  if (first === undefined) throw new Refusal("ABORTED", `${layout.metadata.name} has no member; ask again`);
  try {
    const claim = await orderClaim(creating, layout, first);
    const bound = await untilBound(creating, layout, claim);
    const own = await takeMember(creating, layout, first, bound);
    requirePlace(order, own);
    return await withinOthers(client, layout, own);
  } catch (error) {
    // Of what fails otherwise the outcome is not known: the call that comes next goes on from what there is.
    if (error instanceof Refusal && error.code !== "ABORTED") await abandon(creating, layout);
    throw error;
  }
}

async function requireClass(client: KubeClient, order: SpanOrder): Promise<void> {
  const className = order.record.memberRules?.className ?? "";
  const storageClass = await client.get(STORAGE_CLASSES, { name: className });
  if (storageClass === undefined)
    throw invalidArgument(`parameter memberStorageClassName: there is no StorageClass "${className}"`);
  if (driverNamed(storageClass.provisioner) !== undefined)
    throw invalidArgument(
      `parameter memberStorageClassName: ${className} is of ${storageClass.provisioner}, and Tidemark's own volumes cannot be members`,
    );
  await requireNode(client, order, storageClass);
}

/** The members' provisioner would refuse that node each time, and the scheduler would not be asked for another one. */
async function requireNode(
  client: KubeClient,
  { existing, selectedNode }: SpanOrder,
  storageClass: StorageClass,
): Promise<void> {
  const allowed = allowedTopologies(storageClass);
  if (existing !== undefined || storageClass.volumeBindingMode !== "WaitForFirstConsumer" || allowed.length === 0)
    return;
  const node = await client.get(NODES, { name: selectedNode });
  if (node === undefined || isWithin(allowed, node.metadata.labels ?? {})) return;
  throw new Refusal(
    "RESOURCE_EXHAUSTED",
    `class ${storageClass.metadata.name} of the members allows volumes ${describeTopologies(allowed)} only, and node ${selectedNode} is not among them`,
  );
}

async function orderLayout({ client, budgetBytes }: CreatingSpan, order: SpanOrder): Promise<FilesystemLayout> {
  const { claim, memberRules, handle } = order.record;
  const className = memberRules?.className ?? "";
  const ofClass = await listOfClass(client, className);
  const quota = await readMemberQuota(client, claim.namespace, className, handle, ofClass, budgetBytes);
  const exceeded = quotaMessage(quota, order.memberBytes, 0);
  if (exceeded !== undefined) throw new Refusal("RESOURCE_EXHAUSTED", `QuotaExceeded: ${exceeded}`);
  return writeLayout(client, order);
}

async function writeLayout(
  client: KubeClient,
  { record, memberBytes, selectedNode }: SpanOrder,
): Promise<FilesystemLayout> {
  const layout = newLayout(record, [newMember(record.handle, FIRST_MEMBER, memberBytes)], {
    [SELECTED_NODE_ANNOTATION]: selectedNode,
  });
  const made = await makeLayout(client, "create-volume/layout", layout);
  if (made === undefined) throw madeMeanwhile(record.handle);
  return made;
}

/** Another replica, or a rebuild, was faster: the next call checks what that one has made. */
export function madeMeanwhile(handle: string): Refusal {
  return new Refusal("ABORTED", `${handle} was created concurrently; retry`);
}

async function orderClaim(
  placing: Placing,
  layout: FilesystemLayout,
  member: MemberSpec,
): Promise<PersistentVolumeClaim> {
  try {
    return await createMemberClaim(placing, layout, member);
  } catch (error) {
    if (error instanceof ForeignClaimError || error instanceof UnsafeHomeError)
      throw new Refusal("FAILED_PRECONDITION", error.message);
    if (isKubeError(error, "Forbidden"))
      throw new Refusal("RESOURCE_EXHAUSTED", `the member's claim is refused: ${String(error)}`);
    throw error;
  }
}

async function untilBound(
  { client, changes, memberWaitLimitMs }: CreatingSpan,
  { metadata: { name: handle } }: FilesystemLayout,
  { metadata }: PersistentVolumeClaim,
): Promise<PersistentVolumeClaim> {
  const { namespace, name, uid } = metadata;
  let claim: PersistentVolumeClaim | undefined;
  let trouble: ClaimTrouble | undefined;
  const look = async (): Promise<string | undefined> => {
    claim = await client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
    if (claim === undefined || claim.metadata.uid !== uid) return `claim ${name} has been deleted`;
    if (claim.status?.phase === "Bound" && claim.spec.volumeName) return undefined;
    trouble = await claimTrouble(client, claim);
    return trouble?.exhausted === true ? undefined : `claim ${name} is not bound`;
  };
  const left = await changes.until(handle, look, memberWaitLimitMs);
  if (claim?.status?.phase === "Bound" && left === undefined) return claim;
  // RESOURCE_EXHAUSTED lets csi-provisioner ask the scheduler for another node.
  if (trouble?.exhausted === true) throw new Refusal("RESOURCE_EXHAUSTED", trouble.message);
  const why = trouble === undefined ? "" : `: ${trouble.message}`;
  throw new Refusal("ABORTED", `${handle}: ${left} after ${memberWaitLimitMs} ms${why}; ask again`);
}

/** A provisioner that makes volumes before it knows a node makes them anywhere. */
function requirePlace({ record, places }: SpanOrder, own: readonly Topology[]): void {
  if (sharedTopologies(own, places) !== undefined) return;
  throw new Refusal(
    "FAILED_PRECONDITION",
    `give class ${record.memberRules?.className} the allowedTopologies of the span's class (${describeTopologies(places)}), or WaitForFirstConsumer: its volume is ${describeTopologies(own)}`,
  );
}

/** Where every member can be used: one that is asked for again after an extend may have more than the first. */
async function withinOthers(
  client: KubeClient,
  { metadata, spec }: FilesystemLayout,
  own: Topology[],
): Promise<Topology[]> {
  let topologies: Topology[] | undefined = own;
  for (const { source, state } of spec.members?.slice(1) ?? []) {
    const name = source.claim?.volumeName;
    if (name === undefined || state === "Removed") continue;
    const volume = await client.get(PERSISTENT_VOLUMES, { name });
    if (volume === undefined) throw new Refusal("ABORTED", `PersistentVolume ${name} does not exist yet; retry`);
    const others = topologiesOf(volume);
    topologies = topologies && others && sharedTopologies(topologies, others);
  }
  if (topologies === undefined)
    throw new Refusal("FAILED_PRECONDITION", `${metadata.name}: no node can use all of its members`);
  return topologies;
}

/** Sets the PersistentVolume to Retain before the layout names it to any process. */
async function takeMember(
  { client, layouts }: CreatingSpan,
  layout: FilesystemLayout,
  first: MemberSpec,
  claim: PersistentVolumeClaim,
): Promise<Topology[]> {
  const name = claim.spec.volumeName ?? "";
  const volume = await client.get(PERSISTENT_VOLUMES, { name });
  if (volume === undefined) throw new Refusal("ABORTED", `PersistentVolume ${name} does not exist yet; retry`);
  const topologies = topologiesOf(volume);
  const unfit =
    unfitVolume(volume, claim) ??
    (topologies ? undefined : `PersistentVolume ${name} has a node affinity that is not a CSI topology`);
  if (unfit !== undefined || topologies === undefined) throw new Refusal("FAILED_PRECONDITION", unfit ?? "");
  const patch = keptVolume(volume, layout.spec.volumeUID ?? "", first);
  if (patch !== undefined) await keepVolume(client, volume, patch);
  const source = boundSource(claim, volume);
  await layouts.update("create-volume/member", layout, ({ spec }) => {
    const members = spec.members ?? [];
    if (members.some((member) => member.name === first.name && member.source.claim?.uid !== undefined))
      return undefined;
    return { members: members.map((one) => (one.name === first.name ? { ...one, source: { claim: source } } : one)) };
  });
  return topologies;
}

/**
 * Takes away what no process will ever delete: a volume that has never been published, that no node has reported on and
 * no PersistentVolume names. Nothing was ever written to it.
 */
export async function abandon(creating: CreatingSpan, layout: FilesystemLayout): Promise<void> {
  const { client } = creating;
  const { name } = layout.metadata;
  const live = await readLayout(client, name);
  if (live === undefined || !isUnused(live)) return;
  const volumes = await client.list(PERSISTENT_VOLUMES);
  if (volumes.items.some((volume) => isOurVolume(volume) && volume.spec.csi?.volumeHandle === name)) return;
  await removeVolume(creating, live, isUnused, tearDownSpan);
}

function isUnused({ spec, status }: FilesystemLayout): boolean {
  return spec.nodeName === undefined && status === undefined;
}
