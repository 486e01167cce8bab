// What a namespace's ResourceQuotas leave to one of its filesystems. Kubernetes counts what claims request, which is what a volume of its
// own driver has. Filesystems of ours may be larger than that, and what they are larger by is counted here. Pure.
import { storageKeyOf } from "../../api/storage-quota.ts";
import type { QuotaFacts } from "../facts/facts.ts";

/** Of a ResourceQuota, what is read. */
export interface StorageQuota {
  readonly name: string;
  readonly hard: Readonly<Record<string, number>>;
  /** What the namespace's claims request; a key that is not there is not counted yet. */
  readonly used: Readonly<Record<string, number>>;
}

/** By what the other filesystems of a namespace are, or may become, larger than their claims request. */
export interface OverRequests {
  readonly allBytes: number;
  /** Those of the same StorageClass. */
  readonly classBytes: number;
}

/** What the claim requests is its own in any case: it was let in with it. */
export function tightestQuota(
  quotas: readonly StorageQuota[],
  { storageClassName, requestBytes }: { readonly storageClassName: string; readonly requestBytes: number },
  others: OverRequests,
): QuotaFacts | undefined {
  const keys = [
    [storageKeyOf(undefined), others.allBytes],
    [storageKeyOf(storageClassName), others.classBytes],
  ] as const;
  const found = quotas.flatMap(({ name, hard, used }) =>
    keys.flatMap(([key, othersBytes]) => {
      const limitBytes = hard[key];
      if (limitBytes === undefined) return [];
      const leftBytes = limitBytes - (used[key] ?? Number.NaN) - othersBytes;
      // A sum that is not known leaves nothing: a quota is never overrun on a guess.
      return [{ name, key, limitBytes, bytes: requestBytes + (leftBytes > 0 ? leftBytes : 0) }];
    }),
  );
  return found.reduce<QuotaFacts | undefined>(
    (least, one) => (least === undefined || one.bytes < least.bytes ? one : least),
    undefined,
  );
}
