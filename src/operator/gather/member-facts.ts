// What is known of a span's members in addition to the layout: by the caches, and for where one is to be made and attached, and why its claim
// is not bound, by the API server.
import type { Topology } from "../../contracts/gen/csi/v1/csi.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { objectKey } from "../../contracts/kubernetes/object.ts";
import {
  CSI_NODES,
  EVENTS,
  type Event,
  NODES,
  type PersistentVolume,
  type PersistentVolumeClaim,
} from "../../contracts/kubernetes/resources.ts";
import { MEMBER_LABEL, MEMBER_NAMESPACE, SELECTED_NODE, SELECTED_NODE_ANNOTATION } from "../../contracts/names.ts";
import { MESSAGE_CHARACTERS, shortened, withDetail, wordsOfDriver } from "../../contracts/printable.ts";
import { parseQuantity } from "../../contracts/quantities/quantity.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { MemberPlace, SpanMemberFacts } from "../decide/decide-member.ts";
import { describeTopologies, isWithin, sharedTopologies, topologiesOf } from "../decide/volume-topology.ts";
import { memberClaimName } from "../volumes/member-objects.ts";
import { lackOfSlots } from "./member-room.ts";
import type { VolumeCaches } from "./volume-caches.ts";

export type MemberCaches = Pick<VolumeCaches, "memberClaims" | "persistentVolumes" | "attachments" | "csiDrivers">;

/** As the caches have them. */
export function gatherMembers(caches: MemberCaches, layout: FilesystemLayout): SpanMemberFacts[] {
  const handle = layout.metadata.name;
  const attachments = caches.attachments.store.byIndex("volume", handle);
  return (layout.spec.members ?? []).map((member) => {
    const claim = caches.memberClaims.store.get(objectKey(memberClaimName(handle, member.name)));
    const volume = caches.persistentVolumes.store.get(claim?.spec.volumeName ?? "");
    const driver = caches.csiDrivers.store.get(volume?.spec.csi?.driver ?? "");
    return {
      member,
      claim,
      volume,
      attachments: attachments.filter(({ metadata }) => metadata.labels?.[MEMBER_LABEL] === member.name),
      attachRequired: driver?.spec.attachRequired ?? true,
    };
  });
}

/** Where a member is to be made and attached, and what its node has reported of it. `all`: of the same layout, `facts` among them. Throws KubeError. */
export async function gatherPlace(
  client: KubeClient,
  layout: FilesystemLayout,
  facts: SpanMemberFacts,
  all: readonly SpanMemberFacts[],
  isSpare: boolean,
): Promise<MemberPlace> {
  const { spec, status } = layout;
  const { member, claim, volume } = facts;
  const reported = status?.members?.find(({ name, state }) => name === member.name && state === "Present");
  // Volumes of those that are members already; one that is out of their reach is not a member.
  const others = all.flatMap((one) => (one !== facts && one.member.source.claim?.uid && one.volume) || []);
  const isNew = member.source.claim?.uid === undefined;
  const isPending = isNew && claim?.spec.volumeName === undefined;
  return {
    volumeUID: spec.volumeUID ?? "",
    nodeName: spec.nodeName,
    selectedNode: isPending ? await memberNode(client, layout, others) : undefined,
    stranded: isNew && volume ? await strandedVolume(client, volume, others, spec.nodeName) : undefined,
    trouble: claim && claim.spec.volumeName === undefined ? await troubleOf(client, claim) : undefined,
    full: isSpare ? await lackOfSlotFor(client, layout, facts) : undefined,
    deviceBytes: reported === undefined ? undefined : parseQuantity(reported.size),
  };
}

/** For people alone: a member does not wait for an API server that gives no Events. */
async function troubleOf(client: KubeClient, claim: PersistentVolumeClaim): Promise<string | undefined> {
  const trouble = await claimTrouble(client, claim).catch(() => undefined);
  return trouble?.message;
}

/** Where it is to be attached still. */
async function lackOfSlotFor(
  client: KubeClient,
  layout: FilesystemLayout,
  { member, volume, attachments, attachRequired }: SpanMemberFacts,
): Promise<string | undefined> {
  const { nodeName } = layout.spec;
  const driver = volume?.spec.csi?.driver;
  const isAttached = attachments.some(({ metadata }) => metadata.deletionTimestamp === undefined);
  if (nodeName === undefined || driver === undefined || !attachRequired || isAttached) return undefined;
  return lackOfSlots(client, nodeName, [{ name: member.name, driver }], layout);
}

/**
 * Where a member that is added later must be: within reach of the node that has the volume, and of every other member. The claim names that
 * node to provisioners that make volumes for a node; what they make elsewhere is never used. Undefined: the volume has no member yet whose place would bind it, or no node is in reach.
 */
async function memberNode(
  client: KubeClient,
  { spec, metadata }: FilesystemLayout,
  others: readonly PersistentVolume[],
): Promise<string | undefined> {
  if (spec.nodeName !== undefined) return spec.nodeName;
  const [first] = others;
  const reach = reachOf(others);
  if (first === undefined || reach === undefined) return undefined;
  const chosen = metadata.annotations?.[SELECTED_NODE_ANNOTATION];
  const node = chosen === undefined ? undefined : await client.get(NODES, { name: chosen });
  if (node !== undefined && isWithin(reach, node.metadata.labels ?? {})) return node.metadata.name;
  return anyNodeWithin(client, reach, first.spec.csi?.driver);
}

/** Why what was made for a later member cannot be one; undefined: it can. */
async function strandedVolume(
  client: KubeClient,
  volume: PersistentVolume,
  others: readonly PersistentVolume[],
  nodeName: string | undefined,
): Promise<string | undefined> {
  const own = topologiesOf(volume);
  const reach = reachOf(others);
  if (own === undefined || reach === undefined)
    return `PersistentVolume ${volume.metadata.name} has a node affinity that is not a CSI topology`;
  const what = `use a class of WaitForFirstConsumer: ${volume.metadata.name} can be used ${describeTopologies(own)}`;
  if (sharedTopologies(own, reach) === undefined)
    return shortened(`${what}, and the other members ${describeTopologies(reach)}`, MESSAGE_CHARACTERS);
  const node = nodeName === undefined ? undefined : await client.get(NODES, { name: nodeName });
  if (node === undefined || isWithin(own, node.metadata.labels ?? {})) return undefined;
  return shortened(`${what}, not on node ${nodeName}`, MESSAGE_CHARACTERS);
}

/** Where all of them can be used. Undefined: nowhere, or somewhere that CSI cannot say. */
function reachOf(volumes: readonly PersistentVolume[]): Topology[] | undefined {
  return volumes.map(topologiesOf).reduce((all, own) => all && own && sharedTopologies(all, own), []);
}

async function anyNodeWithin(
  client: KubeClient,
  reach: readonly Topology[],
  driver: string | undefined,
): Promise<string | undefined> {
  const serving = (await client.list(CSI_NODES)).items
    .filter(({ spec }) => spec.drivers.some(({ name }) => name === driver))
    .map(({ metadata }) => metadata.name);
  for (const labelSelector of reach.length === 0 ? [""] : reach.map(selectorOf)) {
    const { items } = await client.list(NODES, labelSelector === "" ? {} : { labelSelector });
    const names = items.filter(({ spec }) => spec?.unschedulable !== true).map(({ metadata }) => metadata.name);
    const [name] = names.filter((one) => serving.includes(one)).sort();
    if (name !== undefined) return name;
  }
  return undefined;
}

function selectorOf({ segments }: Topology): string {
  return Object.entries(segments)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
}

export interface ClaimTrouble {
  /** The node has no room for it: its provisioner says so, or has sent the claim away from the node. */
  readonly exhausted: boolean;
  readonly message: string;
}

const EXHAUSTED = /resource\s?_?exhausted/i;

/**
 * Why a member's claim is not bound yet: what its provisioner has said in Events, and whether it has asked for another node. Undefined:
 * nothing is known against it.
 */
export async function claimTrouble(
  client: KubeClient,
  claim: PersistentVolumeClaim,
): Promise<ClaimTrouble | undefined> {
  const { name, uid, annotations } = claim.metadata;
  const fieldSelector = `involvedObject.uid=${uid},type=Warning`;
  const events = (await client.list(EVENTS, { namespace: MEMBER_NAMESPACE, fieldSelector })).items;
  const said = events.toSorted((a, b) => timeOf(a) - timeOf(b)).at(-1)?.message;
  const exhausted = annotations?.[SELECTED_NODE] === undefined || EXHAUSTED.test(said ?? "");
  if (!exhausted && said === undefined) return undefined;
  const message = withDetail(
    `member claim ${name} of class ${claim.spec.storageClassName}`,
    said === undefined ? "its provisioner wants another node" : wordsOfDriver(said),
  );
  return { exhausted, message };
}

function timeOf({ lastTimestamp, metadata }: Event): number {
  return Date.parse(lastTimestamp ?? metadata.creationTimestamp ?? "") || 0;
}
