// Which filesystems may help pods that lack attach slots on their node, and how: by fewer members. Pure. It says so of all that could,
// since whether one may be changed is its own policy's; and of none where all of them together would not free enough.

import { filesystemSizeBytes } from "../../contracts/formulas/filesystem-size.ts";
import type { ConsolidationNeed } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import type { Pod } from "../../contracts/kubernetes/resources.ts";
import { withDetail } from "../../contracts/printable.ts";
import { formatBytes, formatQuantity } from "../../contracts/quantities/quantity.ts";
import { isWhole, type Merge, type MergeWay, mergeInto, namesOf } from "../decide/members/decide-consolidation.ts";
import { usableMembers } from "../decide/members/decide-member-state.ts";
import { type Share, sharesOf, stays } from "../decide/members/member-bytes.ts";
import { vainGrowth } from "../decide/members/member-growth.ts";
import { MERGING_MEMBERS_LIMIT } from "../decide/members/member-rules.ts";
import {
  lacksNodeForSlots,
  lacksOf,
  nodesOf,
  podKey,
  type SeenNodes,
  type SlotLack,
  volumesOf,
} from "./decide-slots.ts";

export interface SeenNeeds extends SeenNodes {
  /** Those that wait for their containers. */
  readonly pods: readonly Pod[];
  /** Undefined: no more members of it can be made, nor grow. */
  merging(layout: FilesystemLayout): Merging | undefined;
}

export interface Merging {
  /** Whether its members may become larger in place, by its class and by theirs. */
  readonly way: MergeWay;
  /** They could, but have failed to lately: from then on that is tried again where a larger one has no place. Unix milliseconds. */
  readonly growsAgainAtMs?: number;
}

/** A slot may be given back at any moment, and a pod that is on its way needs a moment. */
export const PATIENCE_MS = 20_000;
/** Of those without a node, the oldest at a look: for each of them slots are counted on every node. */
const PODS_LIMIT = 20;
/** Of a pod that has no node: its filesystems' policies may forbid it on some. */
const NODES_LIMIT = 3;

/** As the operator knows it: with the pod that it is for, even where readers of the Filesystem may not see that. */
export type Need = ConsolidationNeed & { readonly pod: string; readonly way: MergeWay };

/** By the handle of the filesystem. */
export function decideNeeds(seen: SeenNeeds, nowMs: number): Map<string, Need> {
  const needs = new Map<string, Need>();
  // The oldest pod of a node first; what it frees there the next look knows.
  const served = new Set<string>();
  for (const pod of waitingForSlots(seen.pods, nowMs)) {
    for (const { node, helpful } of helpFor(pod, seen, served, nowMs).slice(0, NODES_LIMIT)) {
      served.add(node);
      for (const [handle, need] of helpful) needs.set(handle, need);
    }
  }
  return needs;
}

/** Those on their nodes, and the oldest of those that got none for want of slots. */
export function waitingForSlots(pods: readonly Pod[], nowMs: number): Pod[] {
  const waiting = pods.filter((pod) => isWaiting(pod, nowMs)).sort(byAge);
  const placed = waiting.filter(({ spec }) => spec.nodeName);
  return [...placed, ...waiting.filter(lacksNodeForSlots).slice(0, PODS_LIMIT)];
}

interface Help {
  readonly node: string;
  readonly missing: number;
  readonly helpful: ReadonlyMap<string, Need>;
}

/**
 * The nodes on which it could be helped, those first where nothing is in the way, and that lack the least; none where one has the slots: it
 * waits for something else.
 */
function helpFor(pod: Pod, seen: SeenNeeds, served: ReadonlySet<string>, nowMs: number): Help[] {
  const volumes = volumesOf(pod, seen);
  const nodes = volumes === undefined ? [] : nodesOf(pod, volumes, seen);
  const lacking = nodes.map((node) => ({ node, lacks: lacksOf(volumes ?? [], node, seen) }));
  if (lacking.some(({ lacks }) => lacks.length === 0)) return [];
  return lacking
    .filter(({ node }) => !served.has(node))
    .map(({ node, lacks }): Help => {
      const missing = lacks.reduce((sum, lack) => sum + lack.missing, 0);
      return { node, missing, helpful: needsOf({ pod, node, lacks }, seen, nowMs) };
    })
    .filter(({ helpful }) => helpful.size > 0)
    .sort((a, b) => hindrance(a) - hindrance(b) || a.missing - b.missing || (a.node < b.node ? -1 : 1));
}

/**
 * A node where nothing can be merged as things are comes last: its obstacle is reported only if no other node does
 * better.
 */
function hindrance({ helpful }: Help): number {
  return [...helpful.values()].every(({ obstacle }) => obstacle !== undefined) ? 1 : 0;
}

function byAge(a: Pod, b: Pod): number {
  const [first, second] = [a, b].map(({ metadata }) => Date.parse(metadata.creationTimestamp ?? "") || 0);
  return (first ?? 0) - (second ?? 0) || (podKey(a) < podKey(b) ? -1 : 1);
}

function isWaiting({ metadata, status }: Pod, nowMs: number): boolean {
  const placed = status?.conditions?.find(({ type }) => type === "PodScheduled")?.lastTransitionTime;
  const sinceMs = Date.parse(placed ?? metadata.creationTimestamp ?? "");
  return metadata.deletionTimestamp === undefined && status?.phase === "Pending" && nowMs - sinceMs >= PATIENCE_MS;
}

interface Waiting {
  readonly pod: Pod;
  readonly node: string;
  readonly lacks: readonly SlotLack[];
}

function needsOf({ pod, node, lacks }: Waiting, seen: SeenNeeds, nowMs: number): Map<string, Need> {
  const candidates = seen.layoutsOn(node).flatMap((layout) => candidateOf(layout, seen) ?? []);
  const needs = new Map<string, Need>();
  for (const lack of lacks) {
    const ofDriver = candidates
      .filter(({ driver }) => driver === lack.driver)
      .map((candidate) => withTriedGrowth(candidate, lack, nowMs));
    // Data is not moved for a pod that waits all the same.
    if (mostFreed(ofDriver) < lack.missing) return new Map();
    const unhindered = ofDriver.filter((candidate) => obstacleOf(candidate, lack) === undefined);
    const certain = unhindered.filter(({ way, growsAgainAtMs }) => way === "replace" || growsAgainAtMs === undefined);
    const enough = [certain, unhindered].find((some) => mostFreed(some) >= lack.missing);
    for (const candidate of enough ?? ofDriver) {
      const need = needOf(pod, node, lack, candidate);
      if (need !== undefined) needs.set(candidate.layout.metadata.name, need);
    }
  }
  return needs;
}

function mostFreed(candidates: readonly Candidate[]): number {
  return candidates.reduce((sum, { staying }) => sum + staying.length - 1, 0);
}

/** Once the pause after a failure is over; a larger member comes without it. */
function withTriedGrowth(candidate: Candidate, lack: SlotLack, nowMs: number): Candidate {
  const { growsAgainAtMs = Number.POSITIVE_INFINITY } = candidate;
  return nowMs >= growsAgainAtMs && obstacleToLarger(candidate, lack) !== undefined
    ? { ...candidate, way: "grow" }
    : candidate;
}

function obstacleOf(candidate: Candidate, lack: SlotLack): string | undefined {
  // Whatever came first, nothing would leave after it.
  if (candidate.layout.status?.immovable !== undefined) return candidate.layout.status.immovable;
  return candidate.way === "grow" ? undefined : obstacleToLarger(candidate, lack);
}

/** A larger member that takes others' places is there before they leave. */
function obstacleToLarger({ layout, growsAgainAtMs }: Candidate, { used, limit }: SlotLack): string | undefined {
  const why =
    growsAgainAtMs === undefined
      ? "its members cannot grow in place"
      : `a member of its class did not grow in place (tried again at ${new Date(growsAgainAtMs).toISOString()})`;
  const cannotGrow = `${why}, and a larger one that takes their place`;
  if (used >= limit) return `${cannotGrow} needs a free slot there first`;
  const count = usableMembers(layout).length;
  return count >= MERGING_MEMBERS_LIMIT ? `${cannotGrow} finds no place next to its ${count} members` : undefined;
}

interface Candidate extends Merging {
  readonly layout: FilesystemLayout;
  readonly driver: string;
  readonly staying: readonly Share[];
  readonly sizeBytes: number;
}

/** Mounted there, as it should be, with nothing on its way; all members of one driver. */
function candidateOf(layout: FilesystemLayout, seen: SeenNeeds): Candidate | undefined {
  const { spec, status } = layout;
  const sizeBytes = filesystemSizeBytes(layout);
  if (spec.backend !== "span" || sizeBytes === undefined || status?.operation || !isWhole(layout)) return undefined;
  const merging = seen.merging(layout);
  // A growth in vain is settled first: until then the sizes are those that were asked for.
  if (!isAtTarget(layout, sizeBytes) || merging === undefined || vainGrowth(layout) !== undefined) return undefined;
  const staying = sharesOf(layout).filter(stays);
  const drivers = new Set(staying.map(({ member }) => member.source.claim?.driver));
  const [driver] = drivers;
  return staying.length > 1 && drivers.size === 1 && driver !== undefined
    ? { layout, driver, staying, sizeBytes, ...merging }
    : undefined;
}

function isAtTarget({ spec, status }: FilesystemLayout, sizeBytes: number): boolean {
  if (spec.target === undefined || status?.lastOperation?.decidedAt === spec.target.decidedAt) return true;
  return spec.target.size === formatQuantity(sizeBytes);
}

function needOf(pod: Pod, node: string, lack: SlotLack, candidate: Candidate): Need | undefined {
  const { layout, staying, sizeBytes, way } = candidate;
  const members = Math.max(1, staying.length - lack.missing);
  const merge = mergeInto(members, staying, sizeBytes, way);
  if (merge === undefined) return undefined;
  const key = podKey(pod);
  const who = isOfNamespace(layout, pod) ? `pod ${pod.metadata.name}` : "a pod of another namespace";
  const what = `${who} lacks ${slots(lack.missing)} of ${lack.driver} on node ${node}`;
  const message = withDetail(what, `${effectOf(merge)}; ${lack.used} of ${lack.limit} used, ${lack.wanted} needed`);
  const growth = formatQuantity(merge.growthBytes);
  const obstacle = obstacleOf(candidate, lack);
  return { pod: key, node, members, growth, message, way, ...(obstacle === undefined ? {} : { obstacle }) };
}

function effectOf({ leaving, growing, growthBytes }: Merge): string {
  const names = namesOf(leaving);
  return growing === undefined
    ? `${names} merged into a new one of ${formatBytes(growthBytes)} would free ${leaving.length - 1}`
    : `${names} merged into ${growing.member.name} would free ${leaving.length}`;
}

/** Tenants do not read each other's names. */
export function isOfNamespace({ spec }: FilesystemLayout, { metadata }: Pick<Pod, "metadata">): boolean {
  return spec.claimRef?.namespace === metadata.namespace;
}

function slots(count: number): string {
  return `${count} attach slot${count === 1 ? "" : "s"}`;
}
