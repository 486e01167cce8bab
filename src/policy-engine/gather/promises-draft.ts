// What the decisions of one batch have promised so far, over the ledger of all namespaces, which stays as it is: rules are other people's
// programs, and a batch of them may be ended at any instruction.
import type { OverRequests } from "../sizing/namespace-budget.ts";

/** What one filesystem has in the ledger. */
export interface LedgerEntry {
  /** One object for each namespace, and for each class in it: sums go by them. */
  readonly namespace: object;
  readonly ofClass: object;
  readonly promisedBytes: number;
  readonly requestBytes: number;
}

export interface PromisesLedger {
  entryOf(handle: string): LedgerEntry | undefined;
  /** What the other filesystems of its namespace can grow to without asking again, all together. */
  othersBytes(handle: string): number;
  /** By how much that is more than their claims request. */
  othersOver(handle: string): OverRequests;
}

export interface PromisesDraft extends Pick<PromisesLedger, "othersBytes" | "othersOver"> {
  /** An extend was decided: those that are decided after it see it. */
  extending(handle: string, sizeBytes: number): void;
}

export function createPromisesDraft(ledger: PromisesLedger): PromisesDraft {
  const promised = new Map<string, number>();
  const promisedMore = new Sums();
  const overMore = new Sums();
  /** What it has in this draft beyond the ledger. */
  const ownMore = (
    handle: string,
    entry: LedgerEntry,
  ): { readonly promisedBytes: number; readonly overBytes: number } => {
    const presentBytes = promised.get(handle) ?? entry.promisedBytes;
    return {
      promisedBytes: presentBytes - entry.promisedBytes,
      overBytes: over(presentBytes, entry) - over(entry.promisedBytes, entry),
    };
  };
  return {
    othersBytes: (handle) => {
      const entry = ledger.entryOf(handle);
      if (entry === undefined) return Number.NaN;
      return ledger.othersBytes(handle) + promisedMore.of(entry.namespace) - ownMore(handle, entry).promisedBytes;
    },
    othersOver: (handle) => {
      const entry = ledger.entryOf(handle);
      if (entry === undefined) return { allBytes: Number.NaN, classBytes: Number.NaN };
      const { allBytes, classBytes } = ledger.othersOver(handle);
      const { overBytes } = ownMore(handle, entry);
      return {
        allBytes: allBytes + overMore.of(entry.namespace) - overBytes,
        classBytes: classBytes + overMore.of(entry.ofClass) - overBytes,
      };
    },
    extending: (handle, sizeBytes) => {
      const entry = ledger.entryOf(handle);
      if (entry === undefined) return;
      const beforeBytes = promised.get(handle) ?? entry.promisedBytes;
      if (sizeBytes <= beforeBytes) return;
      promised.set(handle, sizeBytes);
      promisedMore.add(entry.namespace, sizeBytes - beforeBytes);
      const overBytes = over(sizeBytes, entry) - over(beforeBytes, entry);
      overMore.add(entry.namespace, overBytes);
      overMore.add(entry.ofClass, overBytes);
    },
  };
}

function over(promisedBytes: number, { requestBytes }: LedgerEntry): number {
  return Math.max(0, promisedBytes - requestBytes);
}

class Sums {
  readonly #sums = new Map<object, number>();
  of(key: object): number {
    return this.#sums.get(key) ?? 0;
  }
  add(key: object, more: number): void {
    this.#sums.set(key, this.of(key) + more);
  }
}
