// What room there is for a volume's members. Of their StorageClass: whether they may grow in place, whether that has failed lately, and
// how much of it the claim's namespace may have; a class that is gone lets none grow. Of a node: whether it has attach slots left, by
// what the members' drivers say on its CSINode; every VolumeAttachment of the node counts, as for the scheduler. From the API server,
// since a cache that lags would let two volumes have the same bytes.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import {
  CSI_NODES,
  RESOURCE_QUOTAS,
  STORAGE_CLASSES,
  VOLUME_ATTACHMENTS,
  type VolumeAttachment,
} from "../../contracts/kubernetes/resources.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { MemberClassFacts } from "../decide/members/decide-members.ts";
import type { SpareFacts } from "../decide/members/decide-spare.ts";
import { type MemberQuota, memberBytesOf, tightestQuota } from "../decide/members/member-bytes.ts";
import { classFailure, classRoundings, growthTime } from "../decide/members/member-growth.ts";
import { rulesOfRecords } from "../decide/members/member-rules.ts";
import { attachmentName } from "../volumes/member-objects.ts";

/**
 * `growthTimeMs`: the date of what is remembered of its growth next. Undefined: the layout is of another backend, or does not say of which
 * class its members are.
 */
export async function readMemberClass(
  client: KubeClient,
  layout: FilesystemLayout,
  budgetBytes: number,
  nowMs: number,
): Promise<(MemberClassFacts & { readonly growthTimeMs: number }) | undefined> {
  const rules = layout.spec.backend === "span" ? rulesOfRecords(layout.metadata.annotations) : undefined;
  if (rules === undefined) return undefined;
  const { className } = rules;
  const { claimRef } = layout.spec;
  const ofClass = await listOfClass(client, className);
  const [storageClass, quota] = await Promise.all([
    client.get(STORAGE_CLASSES, { name: className }),
    readMemberQuota(client, claimRef?.namespace ?? "", className, layout.metadata.name, ofClass, budgetBytes),
  ]);
  const failure = classFailure(ofClass, className, nowMs);
  const growth = { growthFailed: failure !== undefined, growthFailures: failure?.failures };
  const growthTimeMs = growthTime(ofClass, className, nowMs);
  const roundings = classRoundings(ofClass, className, nowMs);
  return { rules, mayGrow: storageClass?.allowVolumeExpansion === true, ...growth, roundings, quota, growthTimeMs };
}

/** What a spare is decided on. */
export async function gatherSpare(
  client: KubeClient,
  layout: FilesystemLayout,
  budgetBytes: number,
  nowMs: number,
): Promise<SpareFacts | undefined> {
  const memberClass = await readMemberClass(client, layout, budgetBytes, nowMs);
  return memberClass && { ...memberClass, full: await lackOfSpareSlot(client, layout) };
}

/** Of every namespace. Throws KubeError. */
export async function listOfClass(client: KubeClient, className: string): Promise<FilesystemLayout[]> {
  const { items } = await client.list(FILESYSTEM_LAYOUTS);
  return items.filter(({ metadata }) => rulesOfRecords(metadata.annotations)?.className === className);
}

/**
 * For the volume `handle`. `ofClass`: all layouts of the class. `budgetBytes`: what the namespace may have where no quota limits the
 * class. Throws KubeError.
 */
export async function readMemberQuota(
  client: KubeClient,
  namespace: string,
  className: string,
  handle: string,
  ofClass: readonly FilesystemLayout[],
  budgetBytes: number,
): Promise<MemberQuota> {
  const quotas = (await client.list(RESOURCE_QUOTAS, { namespace })).items;
  const others = ofClass.filter(
    ({ metadata, spec }) => metadata.name !== handle && spec.claimRef?.namespace === namespace,
  );
  const othersBytes = others.map(memberBytesOf).reduce((a, b) => a + b, 0);
  const budget = { className, name: undefined, limitBytes: budgetBytes, takenBytes: othersBytes };
  return tightestQuota(quotas, className, othersBytes) ?? budget;
}

/** Why it has not, with driver, limit and use; undefined: it has. Throws KubeError. */
export async function lackOfSlots(
  client: KubeClient,
  nodeName: string,
  members: readonly { readonly name: string; readonly driver: string }[],
  layout: FilesystemLayout,
): Promise<string | undefined> {
  const csiNode = await client.get(CSI_NODES, { name: nodeName });
  const limits = new Map(csiNode?.spec.drivers.map(({ name, allocatable }) => [name, allocatable?.count]));
  const limited = members.filter(({ driver }) => limits.get(driver) !== undefined);
  if (limited.length === 0) return undefined;
  const attachments = (await client.list(VOLUME_ATTACHMENTS)).items;
  const names = new Set(limited.map(({ name }) => attachmentName(layout.metadata.name, name, nodeName)));
  for (const driver of new Set(limited.map((member) => member.driver))) {
    const limit = limits.get(driver) ?? 0;
    const wanted = limited.filter((member) => member.driver === driver).length;
    const used = usedSlots(attachments, driver, nodeName, names);
    if (used + wanted > limit)
      return `${driver} attaches at most ${limit} volumes to node ${nodeName}, ${used} are there, and ${wanted} more are needed`;
  }
  return undefined;
}

/** The same of one member more, by the driver of those that are there: a spare is of their class. */
async function lackOfSpareSlot(client: KubeClient, layout: FilesystemLayout): Promise<string | undefined> {
  const { nodeName, members = [] } = layout.spec;
  const driver = members.find(({ source }) => source.claim?.driver !== undefined)?.source.claim?.driver;
  if (nodeName === undefined || driver === undefined) return undefined;
  const names = [...members.map(({ name }) => name), "spare"];
  const wanted = names.map((name) => ({ name, driver }));
  return lackOfSlots(client, nodeName, wanted, layout);
}

/** The volume's own, from an earlier attempt, are not counted twice. */
function usedSlots(
  attachments: readonly VolumeAttachment[],
  driver: string,
  nodeName: string,
  own: ReadonlySet<string>,
): number {
  return attachments.filter(
    ({ metadata, spec }) => spec.attacher === driver && spec.nodeName === nodeName && !own.has(metadata.name),
  ).length;
}
