// What the leading replica knows of filesystems whose members are to be merged for a pod: it checks again every few seconds. It reports
// them in events, and also filesystems that no node can take: only what differs from the look before, and to a pod no object of another
// namespace. It lets one filesystem of a node be merged at a time, and counts how that ended. It changes no volume itself.

import { isDeepStrictEqual } from "node:util";
import type { ConsolidationNeed, Filesystem } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import type { Pod } from "../../contracts/kubernetes/resources.ts";
import { MESSAGE_CHARACTERS, shortened, withDetail } from "../../contracts/printable.ts";
import type { Reflector } from "../../platform/kube/cache/reflector.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { MergeTurn } from "../decide/decide-layout-write.ts";
import { createLedQueue, type Duty } from "../led-queue.ts";
import type { OperatorMetrics } from "../metrics.ts";
import { decideNeeds, isOfNamespace, type Need, type SeenNeeds, waitingForSlots } from "./decide-needs.ts";
import { decideUnfit, type Unfit } from "./decide-slots.ts";
import { createMergeTurns, type MergeTurns, outcomeOf, type TurnEnd } from "./merge-turns.ts";

export interface Consolidations extends Duty {
  /** What is wanted of it; `shown` until this replica has looked. */
  needOf(handle: string, shown: ConsolidationNeed | undefined): ConsolidationNeed | undefined;
  /** Why no node can take it; `shown` until this replica has looked. */
  unfitOf(handle: string, shown: string | undefined): string | undefined;
  /** Looks again, and takes the node's and the pod's turn for it where its members may be merged now. */
  reserve(layout: FilesystemLayout): MergeReservation;
  /** Whether no pod waits any longer for what is merged. False where the pod is unknown. */
  isPodGone(handle: string): boolean;
  /** `changed` hears of each filesystem of which something else is wanted than before. */
  onChange(changed: (handle: string) => void): void;
}

/** A turn that is taken, until it is said what the write has come to that it was taken for. */
interface MergeReservation extends MergeTurn {
  end(end: TurnEnd): void;
}

/** One key: what helps one pod of a node depends on all others there. */
const ALL = "all";

export function createConsolidations(
  watching: ConsolidationWatching,
  synced: Promise<void>,
  lookIntervalMs: number,
  log: Logger,
): Consolidations {
  const { layouts, filesystemOf } = watching;
  const looks = createConsolidationLooks(watching);
  const turns = createMergeTurns(layouts.store);
  let leading = false;

  const queue = createLedQueue(
    { synced, keys: () => [ALL] },
    {
      name: "consolidations",
      concurrency: 1,
      run: () => {
        looks.look();
        return Promise.resolve({ againAfterMs: lookIntervalMs });
      },
      log,
    },
  );
  const follow = (layout: FilesystemLayout): void => {
    const filesystem = filesystemOf(layout);
    const pod = looks.findings()?.needs.get(layout.metadata.name)?.pod ?? filesystem?.status?.consolidation?.pod;
    const end = turns.follow(layout, filesystem, pod);
    if (end === undefined) return;
    // Every replica follows the merges; only the leading one reports their end.
    if (leading) tellEnd(watching, layout, end.endedFor);
    queue.add(ALL);
  };
  const parts: Parts = { watching, looks, turns, follow };
  layouts.subscribe({ added: follow, updated: follow, deleted: ({ metadata }) => turns.forget(metadata.name) });

  return {
    begin: () => {
      leading = true;
      queue.begin();
    },
    end: async () => {
      leading = false;
      await queue.end();
      looks.forget();
    },
    needOf: (handle, shown) => {
      const findings = looks.findings();
      return findings === undefined ? shown : readable(watching, handle, findings.needs.get(handle));
    },
    unfitOf: (handle, shown) => {
      const findings = looks.findings();
      return findings === undefined ? shown : findings.unfit.get(handle)?.message;
    },
    reserve: (layout) => reserve(layout, parts),
    isPodGone: (handle) => isPodGone(handle, parts),
    onChange: looks.onChange,
  };
}

interface Parts {
  readonly watching: ConsolidationWatching;
  readonly looks: ConsolidationLooks;
  readonly turns: MergeTurns;
  /** Brings what is known of a layout's merge up to date. */
  readonly follow: (layout: FilesystemLayout) => void;
}

function reserve({ metadata, spec: { nodeName: node } }: FilesystemLayout, parts: Parts): MergeReservation {
  const { watching, looks, turns, follow } = parts;
  const without = (way: "wait" | "drop"): MergeReservation => ({ node, way, end: () => undefined });
  const findings = looks.findings();
  if (findings === undefined) return without("wait");
  // A layout may have come from its watch before the Filesystem that says what is merged.
  if (node !== undefined) watching.seen.layoutsOn(node).forEach(follow);
  const wanted = { handle: metadata.name, node, pod: findings.needs.get(metadata.name)?.pod };
  if (node !== undefined && !turns.isFree(wanted, watching.clock.nowMs())) return without("wait");
  // What was merged just before may be enough.
  const need = looks.look().needs.get(metadata.name);
  if (node === undefined || need === undefined || need.obstacle !== undefined) return without("drop");
  const ends = turns.begin(wanted);
  return { node, way: need.way, end: (end) => ends(end, watching.clock.nowMs()) };
}

function isPodGone(handle: string, { watching, looks, turns }: Parts): boolean {
  const pod = turns.podOf(handle);
  // A replica that is gone may be the only one that knew which pod waits.
  if (looks.findings() === undefined || pod === undefined) return false;
  const waiting = watching.pods.store.get(pod);
  return waiting === undefined || waiting.metadata.deletionTimestamp !== undefined;
}

/** For the Filesystem's status. */
function readable(
  { pods, layouts }: ConsolidationTelling,
  handle: string,
  need: Need | undefined,
): ConsolidationNeed | undefined {
  const layout = layouts.store.get(handle);
  const waiting = need && pods.store.get(need.pod);
  if (need === undefined) return undefined;
  const { way: _ofOperator, pod, ...rest } = need;
  return layout && waiting && isOfNamespace(layout, waiting) ? { ...rest, pod } : rest;
}

export interface ConsolidationWatching extends ConsolidationTelling {
  readonly seen: Omit<SeenNeeds, "pods">;
  readonly clock: Clock;
}

/** By handle. */
interface Findings {
  readonly needs: ReadonlyMap<string, Need>;
  readonly unfit: ReadonlyMap<string, Unfit>;
}

interface ConsolidationLooks {
  look(): Findings;
  /** Of the last look; undefined: there was none. */
  findings(): Findings | undefined;
  forget(): void;
  /** `changed` hears of each filesystem of which something else is found than before. */
  onChange(changed: (handle: string) => void): void;
}

const NOTHING: Findings = { needs: new Map(), unfit: new Map() };

function createConsolidationLooks(watching: ConsolidationWatching): ConsolidationLooks {
  const listeners: ((handle: string) => void)[] = [];
  let findings: Findings | undefined;

  const tellChanges = <T>(
    before: ReadonlyMap<string, T>,
    found: ReadonlyMap<string, T>,
    tell: (telling: ConsolidationTelling, handle: string, found: T) => void,
  ): void => {
    for (const handle of changedKeys(before, found)) {
      const now = found.get(handle);
      if (now !== undefined) tell(watching, handle, now);
      for (const changed of listeners) changed(handle);
    }
  };
  return {
    look: () => {
      const before = findings ?? NOTHING;
      const found = findingsOf(watching.pods.store.list(), watching.seen, watching.clock.nowMs());
      findings = found;
      tellChanges(before.needs, found.needs, tellNeed);
      tellChanges(before.unfit, found.unfit, tellUnfit);
      return found;
    },
    findings: () => findings,
    forget: () => {
      findings = undefined;
    },
    onChange: (listener) => void listeners.push(listener),
  };
}

function findingsOf(pods: readonly Pod[], seen: ConsolidationWatching["seen"], nowMs: number): Findings {
  return {
    needs: decideNeeds({ ...seen, pods }, nowMs),
    unfit: decideUnfit(waitingForSlots(pods, nowMs), seen),
  };
}

function changedKeys<T>(before: ReadonlyMap<string, T>, found: ReadonlyMap<string, T>): string[] {
  const keys = [...new Set([...before.keys(), ...found.keys()])];
  return keys.filter((key) => !isDeepStrictEqual(before.get(key), found.get(key)));
}

interface ConsolidationTelling {
  /** Of pods that wait for their containers. */
  readonly pods: Reflector<Pod>;
  readonly layouts: Reflector<FilesystemLayout>;
  readonly filesystemOf: (layout: FilesystemLayout) => Filesystem | undefined;
  readonly events: Pick<EventRecorder, "record">;
  readonly metrics: Pick<OperatorMetrics, "consolidated">;
}

function tellNeed({ pods, layouts, filesystemOf, events }: ConsolidationTelling, handle: string, need: Need): void {
  const layout = layouts.store.get(handle);
  const filesystem = layout && filesystemOf(layout);
  if (layout === undefined || filesystem === undefined) return;
  const because = need.obstacle === undefined ? need.message : withDetail(need.obstacle, need.message);
  events.record(filesystem, "Normal", "AttachSlotsNeeded", because);
  const pod = pods.store.get(need.pod);
  if (pod === undefined) return;
  const toPod = isOfNamespace(layout, pod)
    ? withDetail(`Filesystem ${filesystem.metadata.name}`, because)
    : `a filesystem of another namespace could free attach slots on node ${need.node}; ${need.obstacle ?? "its policy decides"}`;
  events.record(pod, "Normal", "AttachSlotsNeeded", shortened(toPod, MESSAGE_CHARACTERS));
}

function tellUnfit(
  { pods, layouts, filesystemOf, events }: ConsolidationTelling,
  handle: string,
  { pod: key, message }: Unfit,
): void {
  const layout = layouts.store.get(handle);
  const filesystem = layout && filesystemOf(layout);
  const pod = pods.store.get(key);
  if (filesystem !== undefined) events.record(filesystem, "Warning", "InsufficientAttachSlots", message);
  if (pod !== undefined) events.record(pod, "Warning", "InsufficientAttachSlots", message);
}

/** `podKey`: who has waited for it. */
function tellEnd(
  { pods, filesystemOf, events, metrics }: ConsolidationTelling,
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
  const said = withDetail(message, why);
  const type = outcome === "Failed" ? "Warning" : "Normal";
  events.record(filesystem, type, `Consolidation${outcome}`, said);
  const pod = podKey === undefined ? undefined : pods.store.get(podKey);
  if (pod === undefined) return;
  const toPod = isOfNamespace(layout, pod)
    ? withDetail(`Filesystem ${filesystem.metadata.name}`, said)
    : `a filesystem of another namespace: ${message}`;
  events.record(pod, type, `Consolidation${outcome}`, toPod);
}
