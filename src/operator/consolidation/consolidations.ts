// What the leading replica knows of filesystems whose members are to be merged for a pod: looked at again every few seconds. It tells
// people, also of filesystems that no node can take, lets one filesystem of a node be merged at a time, and counts how that ended. It
// changes no volume itself.
import { CONSOLIDATION_LIMIT_MS, type ConsolidationNeed } from "../../api/consolidation.ts";
import type { WantedTarget } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { Logger } from "../../process/log.ts";
import { createLedQueue, type Duty } from "../led-queue.ts";
import type { MergeWay } from "../member/decide-consolidation.ts";
import {
  type ConsolidationLooks,
  type ConsolidationWatching,
  createConsolidationLooks,
} from "./consolidation-looks.ts";
import { isOfNamespace, type Need } from "./decide-needs.ts";
import { createMergeTurns, type MergeTurns } from "./merge-turns.ts";
import { type ConsolidationTelling, tellEnd } from "./tell-consolidation.ts";

export interface Consolidations extends Duty {
  /** What is wanted of it; `shown` until this replica has looked. */
  needOf(handle: string, shown: ConsolidationNeed | undefined): ConsolidationNeed | undefined;
  /** Why no node can take it; `shown` until this replica has looked. */
  unfitOf(handle: string, shown: string | undefined): string | undefined;
  /**
   * Looks again, and takes the node's and the pod's turn for it, by a way that there is: "wait" while another one is merged for the pod or on the node, or
   * before the first look; "drop" where no pod waits for it any more.
   */
  tryBegin(layout: FilesystemLayout): Beginning;
  /** Whether a new member that is made for it, and is not there yet, is worth waiting for: somebody waits, and not for too long. */
  isAwaited(layout: FilesystemLayout, wanted: WantedTarget): boolean;
  /** `changed` hears of each filesystem of which something else is wanted than before. */
  onChange(changed: (handle: string) => void): void;
}

export type Beginning = MergeWay | "wait" | "drop";

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
    // Every replica follows what goes on, and the leading one tells of it.
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
    tryBegin: (layout) => tryBegin(layout, parts),
    isAwaited: (layout, wanted) => isAwaited(layout, wanted, parts),
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

function tryBegin({ metadata, spec: { nodeName } }: FilesystemLayout, parts: Parts): Beginning {
  const { watching, looks, turns, follow } = parts;
  const findings = looks.findings();
  if (findings === undefined) return "wait";
  // A layout may have come from its watch before the Filesystem that says what is merged.
  if (nodeName !== undefined) watching.seen.layoutsOn(nodeName).forEach(follow);
  const wanted = { handle: metadata.name, node: nodeName, pod: findings.needs.get(metadata.name)?.pod };
  if (nodeName !== undefined && !turns.isFree(wanted, watching.clock.nowMs())) return "wait";
  // What was merged a moment ago may be enough.
  const need = looks.look().needs.get(metadata.name);
  if (nodeName === undefined || need === undefined || need.obstacle !== undefined) return "drop";
  turns.begin(wanted, watching.clock.nowMs());
  return need.way;
}

function isAwaited({ metadata }: FilesystemLayout, { decidedAt }: WantedTarget, parts: Parts): boolean {
  const { watching, looks, turns } = parts;
  if (watching.clock.nowMs() - Date.parse(decidedAt) >= CONSOLIDATION_LIMIT_MS) return false;
  const pod = turns.podOf(metadata.name);
  // Who waits may have been told to a replica that is gone.
  if (looks.findings() === undefined || pod === undefined) return true;
  const waiting = watching.pods.store.get(pod);
  return waiting !== undefined && waiting.metadata.deletionTimestamp === undefined;
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
