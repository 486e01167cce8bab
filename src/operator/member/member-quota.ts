// What a namespace may have of the members' class. Members are claims in another namespace, where its ResourceQuota does not count
// them, so they are counted here: beside what the namespace's own claims have of the class. Where no ResourceQuota limits the class a
// default budget does, for spans alone. Pure.
import { storageKeyOf } from "../../api/storage-quota.ts";
import type { ResourceQuota } from "../../kube/resources.ts";
import { formatBytes, readQuantity } from "../../units/quantity.ts";

export interface MemberQuota {
  readonly namespace: string;
  readonly className: string;
  /** Of the ResourceQuota; undefined: it is the default budget. */
  readonly name: string | undefined;
  readonly limitBytes: number;
  /** What the namespace has of the class without the volume that is decided on. */
  readonly takenBytes: number;
}

/** The quota that leaves the least; undefined: none limits the class. `othersBytes`: of the members of its other volumes. */
export function tightestQuota(
  quotas: readonly ResourceQuota[],
  namespace: string,
  className: string,
  othersBytes: number,
): MemberQuota | undefined {
  const key = storageKeyOf(className);
  return quotas
    .flatMap(({ metadata: { name }, spec, status }) => {
      // One with scopes counts the claims of some VolumeAttributesClass only, and gives nobody more than the default budget.
      if (spec?.scopes !== undefined || spec?.scopeSelector !== undefined) return [];
      const limitBytes = readQuantity(spec?.hard?.[key]);
      // A limit beyond all sizes limits nothing.
      if (limitBytes === undefined) return [];
      const takenBytes = (readQuantity(status?.used?.[key] ?? "0") ?? limitBytes) + othersBytes;
      return [{ namespace, className, name, limitBytes, takenBytes }];
    })
    .sort((a, b) => a.limitBytes - a.takenBytes - (b.limitBytes - b.takenBytes))[0];
}

/** Why a volume cannot have members of so many bytes; undefined: it can. `refusedBytes`: of those, what nothing uses. */
export function quotaMessage(quota: MemberQuota, wantedBytes: number, refusedBytes: number): string | undefined {
  const { namespace, className, name, limitBytes, takenBytes } = quota;
  if (takenBytes + wantedBytes <= limitBytes) return undefined;
  const giver = name === undefined ? "the default budget (--default-namespace-budget)" : `ResourceQuota ${name}`;
  return (
    `${giver} gives namespace ${namespace} ${formatBytes(limitBytes)} of class ${className}, ` +
    `${formatBytes(takenBytes)} are taken beside this volume, and its members would have ${formatBytes(wantedBytes)}` +
    (refusedBytes === 0 ? "" : `, ${formatBytes(refusedBytes)} of that on devices that carry something`)
  );
}
