import { expect } from "@jest/globals";
import fc from "fast-check";
import {
  createPromisesDraft,
  type LedgerEntry,
  type PromisesLedger,
} from "../../../../src/policy-engine/gather/promises-draft.ts";
import { property } from "../../../harness/property.ts";

interface Filesystem {
  readonly namespace: object;
  readonly ofClass: object;
  readonly promisedBytes: number;
  readonly requestBytes: number;
}

/** The sums as their definition says them, over all filesystems anew. */
function ledgerOf(filesystems: readonly Filesystem[]): PromisesLedger {
  const entryOf = (handle: string): LedgerEntry | undefined => filesystems[Number(handle)];
  const over = ({ promisedBytes, requestBytes }: Filesystem): number => Math.max(0, promisedBytes - requestBytes);
  const sumOfOthers = (
    handle: string,
    bytes: (one: Filesystem) => number,
    isOf: (one: Filesystem) => boolean,
  ): number =>
    filesystems.filter((one, index) => String(index) !== handle && isOf(one)).reduce((sum, one) => sum + bytes(one), 0);
  const own = (handle: string): Filesystem => filesystems[Number(handle)] as Filesystem;
  return {
    entryOf,
    othersBytes: (handle) =>
      sumOfOthers(
        handle,
        (one) => one.promisedBytes,
        (one) => one.namespace === own(handle).namespace,
      ),
    othersOver: (handle) => ({
      allBytes: sumOfOthers(handle, over, (one) => one.namespace === own(handle).namespace),
      classBytes: sumOfOthers(handle, over, (one) => one.ofClass === own(handle).ofClass),
    }),
  };
}

const NAMESPACES = ["shop", "bank"].map((name) => ({ name, classes: [{ name: "fast" }, { name: "slow" }] }));

const aFilesystem = fc
  .record({ namespace: fc.nat(1), ofClass: fc.nat(1), promisedBytes: fc.nat(20), requestBytes: fc.nat(20) })
  .map(({ namespace, ofClass, ...bytes }): Filesystem => {
    const { classes = [], ...rest } = NAMESPACES[namespace] ?? {};
    return { namespace: NAMESPACES[namespace] ?? rest, ofClass: classes[ofClass] ?? rest, ...bytes };
  });

property(
  "a draft says of every filesystem what the ledger would say after the same extends, and leaves the ledger as it is",
  { runs: 300, reaches: { grown: 0.5 } },
  [
    fc.array(aFilesystem, { minLength: 1, maxLength: 8 }),
    fc.array(fc.record({ of: fc.nat(7), sizeBytes: fc.nat(40) }), { maxLength: 12 }),
  ],
  (reach, filesystems, extends_) => {
    const draft = createPromisesDraft(ledgerOf(filesystems));
    const after = [...filesystems];
    for (const { of, sizeBytes } of extends_) {
      const index = of % filesystems.length;
      draft.extending(String(index), sizeBytes);
      const before = after[index] as Filesystem;
      if (sizeBytes > before.promisedBytes) reach("grown");
      after[index] = { ...before, promisedBytes: Math.max(before.promisedBytes, sizeBytes) };
    }
    const expected = ledgerOf(after);
    for (const handle of filesystems.keys()) {
      expect(draft.othersBytes(String(handle))).toBe(expected.othersBytes(String(handle)));
      expect(draft.othersOver(String(handle))).toEqual(expected.othersOver(String(handle)));
    }
  },
);
