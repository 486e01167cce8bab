// What the decisions of one batch have begun so far, over the counts of all volumes, which stay as they are: rules are other people's
// programs, and a batch of them may be ended at any instruction.
import type { FilesystemLayout } from "../../../contracts/kinds/filesystem-layout.ts";
import type { OperationFacts, RateFacts } from "../../facts/facts.ts";
import { goesBefore, type Place, type Turn, type Waiting } from "./operation-slots.ts";

export interface RatesLedger {
  /** When the n-th last change in the namespace began, on the monotonic clock; undefined: the last hour has fewer. */
  nthLast(namespace: string, n: number): number | undefined;
  /** Operations that run there, or were decided. */
  running(place: Place): number;
  waitingBefore(place: Place, turn: Turn, running: number): number;
  /** Undefined: nothing runs on the volume, and it waits for no turn. */
  operationOf(handle: string): OperationOfVolume | undefined;
}

export interface OperationOfVolume {
  readonly runs: boolean;
  readonly waits: Waiting | undefined;
}

export interface RatesDraft {
  /** As decisions read it; undefined: its layout names no claim. */
  of(layout: FilesystemLayout): RateFacts | undefined;
  /** A change was decided: those that are decided after it see it. */
  changing(layout: FilesystemLayout): void;
}

/** The node on which its operations run; undefined: it is attached to none. */
export function nodeOf({ spec, status }: FilesystemLayout): string | undefined {
  return status?.nodeName ?? spec.nodeName;
}

const NEITHER: OperationOfVolume = { runs: false, waits: undefined };

export function createRatesDraft(ledger: RatesLedger, monotonicMs: number): RatesDraft {
  const begun = new Map<string, number>();
  const started = new Map<Place, number>();
  /** Those whose turn has come. */
  const gone: Waiting[] = [];
  const operationsAt = (place: Place, { runs, waits }: OperationOfVolume): OperationFacts => {
    const running = ledger.running(place) + (started.get(place) ?? 0) - (runs ? 1 : 0);
    return {
      running,
      waitingBefore: (direction) => {
        const turn = { direction, ticket: waits?.ticket ?? Number.POSITIVE_INFINITY };
        const goneBefore = gone.filter((one) => one.place === place && one.limit > running && goesBefore(one, turn));
        return ledger.waitingBefore(place, turn, running) - goneBefore.length;
      },
    };
  };
  return {
    of: (layout) => {
      const namespace = layout.spec.claimRef?.namespace;
      if (namespace === undefined) return undefined;
      const here = begun.get(namespace) ?? 0;
      const own = ledger.operationOf(layout.metadata.name) ?? NEITHER;
      const nodeName = nodeOf(layout);
      return {
        nthLastInNamespace: (n) => (n <= here ? monotonicMs : ledger.nthLast(namespace, n - here)),
        cluster: operationsAt(undefined, own),
        node: nodeName === undefined ? undefined : operationsAt(nodeName, own),
      };
    },
    changing: (layout) => {
      const namespace = layout.spec.claimRef?.namespace;
      if (namespace === undefined) return;
      add(begun, namespace);
      const { runs, waits } = ledger.operationOf(layout.metadata.name) ?? NEITHER;
      if (waits !== undefined) gone.push(waits);
      if (runs) return;
      add(started, undefined);
      const nodeName = nodeOf(layout);
      if (nodeName !== undefined) add(started, nodeName);
    },
  };
}

function add<Key>(counts: Map<Key, number>, key: Key): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
