// The part of CreateVolume that is a span's: its first member is made and waited for, and where that can be used, the volume can.
// What fails for good leaves nothing behind, since nobody would ever delete it.

import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { SELECTED_NODE_ANNOTATION } from "../../api/names.ts";
import { driverNamed } from "../../csi/driver.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import type { Topology } from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import {
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolumeClaim,
  STORAGE_CLASSES,
  type StorageClass,
} from "../../kube/resources.ts";
import { boundSource } from "../member/claim-source.ts";
import { type ClaimTrouble, claimTrouble } from "../member/claim-trouble.ts";
import { newMember } from "../member/decide-members.ts";
import { keptVolume, unfitVolume } from "../member/member-claim.ts";
import { type Placing, UnsafeHomeError } from "../member/member-home.ts";
import { quotaMessage } from "../member/member-quota.ts";
import { createMemberClaim, ForeignClaimError, keepVolume } from "../member/member-steps.ts";
import { listOfClass, readMemberQuota } from "../member/read-member-quota.ts";
import { tearDownSpan } from "../member/tear-down-span.ts";
import type { Turns } from "../member/turns.ts";
import {
  allowedTopologies,
  describeTopologies,
  isWithin,
  sharedTopologies,
  topologiesOf,
} from "../member/volume-topology.ts";
import { newLayout } from "../volume/layout-fields.ts";
import type { LayoutWriter } from "../volume/layout-writer.ts";
import { makeLayout, readLayout } from "../volume/new-layout.ts";
import type { VolumeChanges } from "../volume/volume-changes.ts";
import { isOurVolume, type VolumeRecord } from "../volume/volume-record.ts";
import { removeVolume } from "./remove-volume.ts";

export interface CreatingSpan extends Placing {
  readonly layouts: LayoutWriter;
  readonly changes: VolumeChanges;
  readonly turns: Turns;
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

/** Where the volume can be used. */
export async function createSpan(creating: CreatingSpan, order: SpanOrder): Promise<Topology[] | Refusal> {
  const { client } = creating;
  const unusable = await refusalOfClass(client, order);
  if (unusable !== undefined) return unusable;
  const { namespace } = order.record.claim;
  const layout = order.existing ?? (await creating.turns.take(namespace, () => orderLayout(creating, order)));
  if (layout instanceof Refusal) return layout;
  const first = layout.spec.members?.[0];
  if (first === undefined) return new Refusal("ABORTED", `${layout.metadata.name} has no member; ask again`);
  const claim = await orderClaim(creating, layout, first);
  const bound = claim instanceof Refusal ? claim : await untilBound(creating, layout, claim);
  const own = bound instanceof Refusal ? bound : await takeMember(creating, layout, first, bound);
  const within = own instanceof Refusal ? own : (refusalOfPlace(order, own) ?? own);
  const topologies = within instanceof Refusal ? within : await withinOthers(client, layout, within);
  if (topologies instanceof Refusal && topologies.code !== "ABORTED") await abandon(creating, layout);
  return topologies;
}

async function refusalOfClass(client: KubeClient, order: SpanOrder): Promise<Refusal | undefined> {
  const className = order.record.memberRules?.className ?? "";
  const storageClass = await client.get(STORAGE_CLASSES, { name: className });
  if (storageClass === undefined)
    return invalidArgument(`parameter memberStorageClassName: there is no StorageClass "${className}"`);
  if (driverNamed(storageClass.provisioner) === undefined) return refusalOfNode(client, order, storageClass);
  return invalidArgument(
    `parameter memberStorageClassName: ${className} is of ${storageClass.provisioner}, and Tidemark's own volumes cannot be members`,
  );
}

/** The members' provisioner would refuse that node each time, and the scheduler would not be asked for another one. */
async function refusalOfNode(
  client: KubeClient,
  { existing, selectedNode }: SpanOrder,
  storageClass: StorageClass,
): Promise<Refusal | undefined> {
  const allowed = allowedTopologies(storageClass);
  if (existing !== undefined || storageClass.volumeBindingMode !== "WaitForFirstConsumer" || allowed.length === 0)
    return undefined;
  const node = await client.get(NODES, { name: selectedNode });
  if (node === undefined || isWithin(allowed, node.metadata.labels ?? {})) return undefined;
  return new Refusal(
    "RESOURCE_EXHAUSTED",
    `class ${storageClass.metadata.name} of the members allows volumes ${describeTopologies(allowed)} only, and node ${selectedNode} is not there`,
  );
}

async function orderLayout(
  { client, budgetBytes }: CreatingSpan,
  order: SpanOrder,
): Promise<FilesystemLayout | Refusal> {
  const { claim, memberRules, handle } = order.record;
  const className = memberRules?.className ?? "";
  const ofClass = await listOfClass(client, className);
  const quota = await readMemberQuota(client, claim.namespace, className, handle, ofClass, budgetBytes);
  const exceeded = quotaMessage(quota, order.memberBytes, 0);
  return exceeded === undefined
    ? writeLayout(client, order)
    : new Refusal("RESOURCE_EXHAUSTED", `QuotaExceeded: ${exceeded}`);
}

async function writeLayout(
  client: KubeClient,
  { record, memberBytes, selectedNode }: SpanOrder,
): Promise<FilesystemLayout | Refusal> {
  const layout = newLayout(record, [newMember(record.handle, FIRST_MEMBER, memberBytes)], {
    [SELECTED_NODE_ANNOTATION]: selectedNode,
  });
  return (await makeLayout(client, "create-volume/layout", layout)) ?? madeMeanwhile(record.handle);
}

/** Another replica, or a rebuild, was faster: what it has made is looked at first. */
export function madeMeanwhile(handle: string): Refusal {
  return new Refusal("ABORTED", `${handle} was made meanwhile; ask again`);
}

async function orderClaim(
  placing: Placing,
  layout: FilesystemLayout,
  member: MemberSpec,
): Promise<PersistentVolumeClaim | Refusal> {
  try {
    return await createMemberClaim(placing, layout, member);
  } catch (error) {
    if (error instanceof ForeignClaimError || error instanceof UnsafeHomeError)
      return new Refusal("FAILED_PRECONDITION", error.message);
    if (isKubeError(error, "Forbidden"))
      return new Refusal("RESOURCE_EXHAUSTED", `the member's claim is refused: ${String(error)}`);
    throw error;
  }
}

async function untilBound(
  { client, changes, memberWaitLimitMs }: CreatingSpan,
  { metadata: { name: handle } }: FilesystemLayout,
  { metadata }: PersistentVolumeClaim,
): Promise<PersistentVolumeClaim | Refusal> {
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
  if (trouble?.exhausted === true) return new Refusal("RESOURCE_EXHAUSTED", trouble.message);
  const why = trouble === undefined ? "" : `: ${trouble.message}`;
  return new Refusal("ABORTED", `${handle}: ${left} after ${memberWaitLimitMs} ms${why}; ask again`);
}

/** A provisioner that makes volumes before it knows a node makes them anywhere. */
function refusalOfPlace({ record, places }: SpanOrder, own: readonly Topology[]): Refusal | undefined {
  if (sharedTopologies(own, places) !== undefined) return undefined;
  return new Refusal(
    "FAILED_PRECONDITION",
    `allowedTopologies of the span's class allow volumes ${describeTopologies(places)} only, and class ${record.memberRules?.className} of the ` +
      `members made one ${describeTopologies(own)}: give that class the same allowedTopologies, or WaitForFirstConsumer`,
  );
}

/** Where every member can be used: one that is asked for again after an extend may have more than the first. */
async function withinOthers(
  client: KubeClient,
  { metadata, spec }: FilesystemLayout,
  own: Topology[],
): Promise<Topology[] | Refusal> {
  let topologies: Topology[] | undefined = own;
  for (const { source, state } of spec.members?.slice(1) ?? []) {
    const name = source.claim?.volumeName;
    if (name === undefined || state === "Removed") continue;
    const volume = await client.get(PERSISTENT_VOLUMES, { name });
    if (volume === undefined) return new Refusal("ABORTED", `PersistentVolume ${name} is not there; ask again`);
    const others = topologiesOf(volume);
    topologies = topologies && others && sharedTopologies(topologies, others);
  }
  return topologies ?? new Refusal("FAILED_PRECONDITION", `${metadata.name}: no node can use all of its members`);
}

/** The volume is kept before the layout tells anybody of it. */
async function takeMember(
  { client, layouts }: CreatingSpan,
  layout: FilesystemLayout,
  first: MemberSpec,
  claim: PersistentVolumeClaim,
): Promise<Topology[] | Refusal> {
  const name = claim.spec.volumeName ?? "";
  const volume = await client.get(PERSISTENT_VOLUMES, { name });
  if (volume === undefined) return new Refusal("ABORTED", `PersistentVolume ${name} is not there; ask again`);
  const topologies = topologiesOf(volume);
  const unfit =
    unfitVolume(volume, claim) ?? (topologies ? undefined : `the node affinity of ${name} is none of CSI's`);
  if (unfit !== undefined || topologies === undefined) return new Refusal("FAILED_PRECONDITION", unfit ?? "");
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
 * Takes away what nobody will ever delete: a volume that has never been published, that no node has reported on and no
 * PersistentVolume names. Nothing was ever written to it.
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
