// What the decisions of one batch have begun so far, over the counts of all volumes, which stay as they are: rules are other people's
// programs, and a batch of them may be ended at any instruction.
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import type { RateFacts } from "../facts/facts.ts";

export interface RatesLedger {
  /** When the n-th last change in the namespace began, on the monotonic clock; undefined: the last hour has fewer. */
  nthLast(namespace: string, n: number): number | undefined;
}

export interface RatesDraft {
  /** As decisions read it; undefined: its layout names no claim. */
  of(layout: FilesystemLayout): RateFacts | undefined;
  /** A change was decided: those that are decided after it see it. */
  changing(layout: FilesystemLayout): void;
}

export function createRatesDraft(ledger: RatesLedger, monotonicMs: number): RatesDraft {
  const begun = new Map<string, number>();
  return {
    of: ({ spec: { claimRef } }) => {
      const namespace = claimRef?.namespace;
      if (namespace === undefined) return undefined;
      const here = begun.get(namespace) ?? 0;
      return { nthLastInNamespace: (n) => (n <= here ? monotonicMs : ledger.nthLast(namespace, n - here)) };
    },
    changing: ({ spec: { claimRef } }) => {
      const namespace = claimRef?.namespace;
      if (namespace !== undefined) begun.set(namespace, (begun.get(namespace) ?? 0) + 1);
    },
  };
}
