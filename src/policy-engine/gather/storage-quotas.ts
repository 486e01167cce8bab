// The ResourceQuotas of a namespace that limit storage, as the API server's controller has counted them last.
import { storageKeyOf } from "../../api/storage-quota.ts";
import { readQuantity } from "../../units/quantity.ts";
import type { StorageQuota } from "../sizing/quota.ts";
import type { Caches } from "./caches.ts";

const STORAGE_KEY = storageKeyOf(undefined);

export function storageQuotas({ quotas }: Pick<Caches, "quotas">, namespace: string): StorageQuota[] {
  return quotas.store.byIndex("namespace", namespace).flatMap(({ metadata: { name }, spec, status }) => {
    // One with scopes counts the claims of some VolumeAttributesClass only.
    if (spec?.scopes !== undefined || spec?.scopeSelector !== undefined) return [];
    const hard = storageOf(spec?.hard);
    return Object.keys(hard).length === 0 ? [] : [{ name, hard, used: storageOf(status?.used) }];
  });
}

/** Bytes. A limit beyond all sizes limits nothing. */
function storageOf(amounts: Readonly<Record<string, string>> | undefined): Readonly<Record<string, number>> {
  return Object.fromEntries(
    Object.entries(amounts ?? {}).flatMap(([key, amount]) => {
      const bytes = key.endsWith(STORAGE_KEY) ? readQuantity(amount) : undefined;
      return bytes === undefined ? [] : [[key, bytes]];
    }),
  );
}
