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
  const batch: Batch = { ledger, monotonicMs, begun: new Map(), started: new Map(), gone: [] };
  return {
    of: (layout) => (layout.spec.claimRef?.namespace === undefined ? undefined : new RatesOfVolume(batch, layout)),
    changing: (layout) => {
      const namespace = layout.spec.claimRef?.namespace;
      if (namespace === undefined) return;
      add(batch.begun, namespace);
      const { runs, waits } = ledger.operationOf(layout.metadata.name) ?? NEITHER;
      if (waits !== undefined) batch.gone.push(waits);
      if (runs) return;
      add(batch.started, undefined);
      const nodeName = nodeOf(layout);
      if (nodeName !== undefined) add(batch.started, nodeName);
    },
  };
}

interface Batch {
  readonly ledger: RatesLedger;
  readonly monotonicMs: number;
  /** By namespace. */
  readonly begun: Map<string, number>;
  readonly started: Map<Place, number>;
  /** Those whose turn has come. */
  readonly gone: Waiting[];
}

/** Nothing is looked up before a ceiling asks for it: most volumes have none. */
class RatesOfVolume implements RateFacts {
  readonly #batch: Batch;
  readonly #layout: FilesystemLayout;

  constructor(batch: Batch, layout: FilesystemLayout) {
    this.#batch = batch;
    this.#layout = layout;
  }

  nthLastInNamespace(n: number): number | undefined {
    const { ledger, begun, monotonicMs } = this.#batch;
    const namespace = this.#layout.spec.claimRef?.namespace ?? "";
    const here = begun.get(namespace) ?? 0;
    return n <= here ? monotonicMs : ledger.nthLast(namespace, n - here);
  }

  get cluster(): OperationFacts {
    return this.#operationsAt(undefined);
  }

  get node(): OperationFacts | undefined {
    const nodeName = nodeOf(this.#layout);
    return nodeName === undefined ? undefined : this.#operationsAt(nodeName);
  }

  #operationsAt(place: Place): OperationFacts {
    const { ledger, started, gone } = this.#batch;
    const { runs, waits } = ledger.operationOf(this.#layout.metadata.name) ?? NEITHER;
    const running = ledger.running(place) + (started.get(place) ?? 0) - (runs ? 1 : 0);
    return {
      running,
      waitingBefore: (direction) => {
        const turn = { direction, ticket: waits?.ticket ?? Number.POSITIVE_INFINITY };
        const goneBefore = gone.filter((one) => one.place === place && one.limit > running && goesBefore(one, turn));
        return ledger.waitingBefore(place, turn, running) - goneBefore.length;
      },
    };
  }
}

function add<Key>(counts: Map<Key, number>, key: Key): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
