// What the leading replica knows of filesystems whose members are to be merged for a pod: looked at again every few seconds. It tells
// people, also of filesystems that no node can take, lets one filesystem of a node be merged at a time, and counts how that ended. It
// changes no volume itself.
import { isDeepStrictEqual } from "node:util";
import { CONSOLIDATION_LIMIT_MS, type ConsolidationNeed } from "../../api/consolidation.ts";
import type { Filesystem, WantedTarget } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { EventRecorder } from "../../kube/events.ts";
import { objectKey } from "../../kube/object.ts";
import type { Reflector } from "../../kube/reflector.ts";
import type { Pod } from "../../kube/resources.ts";
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import { createLedQueue, type Duty } from "../led-queue.ts";
import type { OperatorMetrics } from "../metrics.ts";
import { decideNeeds, isOfNamespace, type Need, type SeenNeeds, waitingForSlots } from "./decide-needs.ts";
import { decideUnfit, type Unfit } from "./decide-unfit.ts";
import { isInTheWay, isMerging, type NodeMerge, outcomeOf } from "./under-way.ts";

export interface ConsolidationWatching {
  /** Of pods that wait for their containers. */
  readonly pods: Reflector<Pod>;
  readonly layouts: Reflector<FilesystemLayout>;
  readonly filesystemOf: (layout: FilesystemLayout) => Filesystem | undefined;
  readonly seen: Omit<SeenNeeds, "pods">;
  readonly events: Pick<EventRecorder, "record">;
  readonly metrics: Pick<OperatorMetrics, "consolidated">;
  readonly clock: Clock;
}

export interface Consolidations extends Duty {
  /** What is wanted of it; `shown` until this replica has looked. */
  needOf(handle: string, shown: ConsolidationNeed | undefined): ConsolidationNeed | undefined;
  /** Why no node can take it; `shown` until this replica has looked. */
  unfitOf(handle: string, shown: string | undefined): string | undefined;
  /**
   * Looks again, and "begin" takes the node's and the pod's turn for it: "wait" while another one is merged for the pod or on the node, or
   * before the first look; "drop" where no pod waits for it any more.
   */
  tryBegin(layout: FilesystemLayout): Beginning;
  /** Whether a new member that is made for it, and is not there yet, is worth waiting for: somebody waits, and not for too long. */
  isAwaited(layout: FilesystemLayout, wanted: WantedTarget): boolean;
  /** `changed` hears of each filesystem of which something else is wanted than before. */
  onChange(changed: (handle: string) => void): void;
}

export type Beginning = "begin" | "wait" | "drop";

/** Pods come in bursts, and none is in a hurry that has waited that long: a look counts slots on each node. */
const LOOK_INTERVAL_MS = 10_000;
/** A cache shows what was begun well before. */
const BEGINNING_MS = 10_000;

export function createConsolidations(
  watching: ConsolidationWatching,
  synced: Promise<void>,
  log: Logger,
): Consolidations {
  const { pods, layouts, filesystemOf, seen, clock } = watching;
  const changed: ((handle: string) => void)[] = [];
  let leading = false;
  let needs: ReadonlyMap<string, Need> | undefined;
  let unfit: ReadonlyMap<string, Unfit> = new Map();
  /** By handle. */
  const begun = new Map<string, NodeMerge & { readonly atMs: number }>();
  /** Who waits for what is merged now, by handle. */
  const merging = new Map<string, string | undefined>();

  const look = (): void => {
    const [neededBefore, unfitBefore] = [needs ?? new Map<string, Need>(), unfit];
    const [waiting, nowMs] = [pods.store.list(), clock.nowMs()];
    const needed = decideNeeds({ ...seen, pods: waiting }, nowMs);
    needs = needed;
    unfit = decideUnfit(waitingForSlots(waiting, nowMs), seen);
    tellChanges(neededBefore, needed, tell);
    tellChanges(unfitBefore, unfit, tellUnfit);
  };
  const tellChanges = <T>(
    before: ReadonlyMap<string, T>,
    found: ReadonlyMap<string, T>,
    tellOf: (watching: ConsolidationWatching, handle: string, found: T) => void,
  ): void => {
    for (const handle of new Set([...before.keys(), ...found.keys()])) {
      const now = found.get(handle);
      if (isDeepStrictEqual(before.get(handle), now)) continue;
      if (now !== undefined) tellOf(watching, handle, now);
      for (const each of changed) each(handle);
    }
  };
  const follow = (layout: FilesystemLayout): void => {
    const handle = layout.metadata.name;
    const filesystem = filesystemOf(layout);
    if (isMerging(layout, filesystem)) {
      if (!merging.has(handle)) merging.set(handle, needs?.get(handle)?.pod ?? filesystem?.status?.consolidation?.pod);
    } else if (merging.has(handle)) {
      // Every replica follows what goes on, and the leading one tells of it.
      if (leading) tellEnd(watching, layout, merging.get(handle));
      merging.delete(handle);
      queue.add(ALL);
    }
  };
  const queue = createLedQueue(
    { synced, keys: () => [ALL] },
    {
      name: "consolidations",
      concurrency: 1,
      run: () => {
        look();
        return Promise.resolve({ againAfterMs: LOOK_INTERVAL_MS });
      },
      log,
    },
  );
  layouts.subscribe({ added: follow, updated: follow, deleted: ({ metadata }) => void merging.delete(metadata.name) });
  const mergesUnderWay = (): NodeMerge[] => {
    for (const [other, { atMs }] of begun) if (clock.nowMs() - atMs >= BEGINNING_MS) begun.delete(other);
    return [
      ...begun.values(),
      ...[...merging].map(([handle, pod]) => ({ handle, node: layouts.store.get(handle)?.spec.nodeName, pod })),
    ];
  };
  return {
    begin: () => {
      leading = true;
      queue.begin();
    },
    end: async () => {
      leading = false;
      await queue.end();
      needs = undefined;
      unfit = new Map();
    },
    needOf: (handle, shown) => (needs === undefined ? shown : readable(watching, handle, needs.get(handle))),
    unfitOf: (handle, shown) => (needs === undefined ? shown : unfit.get(handle)?.message),
    tryBegin: ({ metadata, spec }) => {
      if (needs === undefined) return "wait";
      const { nodeName } = spec;
      const pod = needs.get(metadata.name)?.pod;
      const wanted = { handle: metadata.name, node: nodeName, pod };
      if (nodeName !== undefined && mergesUnderWay().some((one) => isInTheWay(one, wanted))) return "wait";
      // What was merged a moment ago may be enough.
      look();
      const need = needs.get(metadata.name);
      if (nodeName === undefined || need === undefined || need.obstacle !== undefined) return "drop";
      begun.set(metadata.name, { ...wanted, atMs: clock.nowMs() });
      return "begin";
    },
    isAwaited: ({ metadata }, { decidedAt }) => {
      if (clock.nowMs() - Date.parse(decidedAt) >= CONSOLIDATION_LIMIT_MS) return false;
      const pod = merging.get(metadata.name);
      // Who waits may have been told to a replica that is gone.
      if (needs === undefined || pod === undefined) return true;
      const waiting = pods.store.get(pod);
      return waiting !== undefined && waiting.metadata.deletionTimestamp === undefined;
    },
    onChange: (listener) => void changed.push(listener),
  };
}

/** One key: what helps one pod of a node depends on all others there. */
const ALL = "all";

/** For the Filesystem's status. */
function readable(
  { pods, layouts }: ConsolidationWatching,
  handle: string,
  need: Need | undefined,
): ConsolidationNeed | undefined {
  const layout = layouts.store.get(handle);
  const waiting = need && pods.store.get(need.pod);
  if (need === undefined || (layout && waiting && isOfNamespace(layout, waiting))) return need;
  const { pod: _ofAnother, ...rest } = need;
  return rest;
}

function tell({ pods, layouts, filesystemOf, events }: ConsolidationWatching, handle: string, need: Need): void {
  const layout = layouts.store.get(handle);
  const filesystem = layout && filesystemOf(layout);
  if (layout === undefined || filesystem === undefined) return;
  const because = need.obstacle === undefined ? need.message : `${need.message}, but ${need.obstacle}`;
  events.record(filesystem, "Normal", "SlotsWanted", because);
  const pod = pods.store.get(need.pod);
  if (pod === undefined) return;
  const said = isOfNamespace(layout, pod)
    ? `Filesystem ${objectKey(filesystem.metadata)}: ${need.message}`
    : `a filesystem of another namespace could have ${need.members} members on node ${need.node}, which would free attach slots`;
  const next = need.obstacle === undefined ? "; its policy decides" : `, but ${need.obstacle}`;
  events.record(pod, "Normal", "SlotsWanted", `${said}${next}`);
}

function tellUnfit(
  { pods, layouts, filesystemOf, events }: ConsolidationWatching,
  handle: string,
  { pod: key, message }: Unfit,
): void {
  const layout = layouts.store.get(handle);
  const filesystem = layout && filesystemOf(layout);
  const pod = pods.store.get(key);
  if (filesystem !== undefined) events.record(filesystem, "Warning", "NoNodeHasSlots", message);
  if (pod !== undefined) events.record(pod, "Warning", "NoNodeHasSlots", message);
}

function tellEnd(
  { pods, filesystemOf, events, metrics }: ConsolidationWatching,
  layout: FilesystemLayout,
  podKey: string | undefined,
): void {
  const filesystem = filesystemOf(layout);
  const outcome = outcomeOf(layout, filesystem);
  metrics.consolidated(outcome ?? "Superseded");
  if (filesystem === undefined || outcome === undefined) return;
  const count = (layout.status?.members ?? []).filter(({ state }) => state === "Present").length;
  const message = `it has ${count} member${count === 1 ? "" : "s"} now`;
  const why = layout.status?.lastOperation?.message;
  const said = why === undefined ? message : `${message}: ${why}`;
  const type = outcome === "Failed" ? "Warning" : "Normal";
  events.record(filesystem, type, `Consolidation${outcome}`, said);
  const pod = podKey === undefined ? undefined : pods.store.get(podKey);
  if (pod === undefined) return;
  const toPod = isOfNamespace(layout, pod)
    ? `Filesystem ${objectKey(filesystem.metadata)}: ${said}`
    : `a filesystem of another namespace: ${message}`;
  events.record(pod, type, `Consolidation${outcome}`, toPod);
}
