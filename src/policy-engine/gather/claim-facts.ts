// What a decision knows of a claim: what its user and its class ask for, whether another autoscaler or its driver stands against it, and
// what the ResourceQuotas of its namespace leave. It reads caches only.

import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { objectKey } from "../../contracts/kubernetes/object.ts";
import { type PersistentVolumeClaim, storageKeyOf } from "../../contracts/kubernetes/resources.ts";
import { RECORDS } from "../../contracts/names.ts";
import { claimResizeOf, infeasibleMessage, otherAutoscalerOf } from "../../contracts/ordinary-claim.ts";
import { parseQuantity, readQuantity } from "../../contracts/quantities/quantity.ts";
import { NO_LABELS } from "../../contracts/schema/label-selector.ts";
import { type ClaimFacts, claimKey, type QuotaFacts } from "../facts/facts.ts";
import { type StorageQuota, tightestQuota } from "../sizing/namespace-budget.ts";
import type { Caches } from "./caches.ts";
import type { PromisesLedger } from "./promises-draft.ts";

const STORAGE_KEY = storageKeyOf(undefined);

/** The claim that a layout belongs to. A recreated claim of the same name is another claim: undefined. */
export function claimFactsOf(
  caches: Pick<Caches, "claims" | "storageClasses">,
  layout: FilesystemLayout,
): ClaimFacts | undefined {
  const { claimRef } = layout.spec;
  const claim = claimRef && caches.claims.store.get(objectKey(claimRef));
  return claim?.metadata.uid === claimRef?.uid && claim !== undefined ? claimFacts(caches, claim, layout) : undefined;
}

function claimFacts(
  caches: Pick<Caches, "storageClasses">,
  claim: PersistentVolumeClaim,
  layout: FilesystemLayout,
): ClaimFacts {
  const isOrdinary = layout.spec.backend === "claim";
  return {
    namespace: claim.metadata.namespace ?? "",
    name: claim.metadata.name,
    labels: claim.metadata.labels ?? NO_LABELS,
    annotations: claim.metadata.annotations ?? {},
    storageClassName: claim.spec.storageClassName ?? "",
    backend: layout.spec.backend ?? "loop",
    // Of what kubelet mounts for others, nothing but its overhead matters here: that of ext4 is as large as any.
    fsType: layout.spec.fsType ?? (isOrdinary ? "ext4" : "btrfs"),
    volumeMode: layout.spec.volumeMode ?? "Filesystem",
    ...(isOrdinary ? ordinaryCandidates(caches, claim, layout) : ownCandidates(caches, claim, layout)),
    createdAtMs: Date.parse(claim.metadata.creationTimestamp ?? ""),
    deleting: claim.metadata.deletionTimestamp !== undefined,
  };
}

/** What people and classes ask for, and what stands against it. */
type ClaimCandidates = Pick<
  ClaimFacts,
  | "nominalBytes"
  | "initialSizeBytes"
  | "classMaxBytes"
  | "raisedRequestBytes"
  | "otherAutoscaler"
  | "driver"
  | "infeasibleResize"
>;

function ownCandidates(
  caches: Pick<Caches, "storageClasses">,
  claim: PersistentVolumeClaim,
  layout: FilesystemLayout,
): ClaimCandidates {
  const parameters = caches.storageClasses.store.get(claim.spec.storageClassName ?? "")?.parameters ?? {};
  const nominalBytes = requestBytes(claim);
  return {
    nominalBytes,
    initialSizeBytes: quantityParameter(parameters["initialSize"]) ?? nominalBytes,
    classMaxBytes: quantityParameter(parameters["maxSize"]),
    raisedRequestBytes: raisedRequestBytes(claim, layout),
    otherAutoscaler: undefined,
    infeasibleResize: undefined,
  };
}

// An ordinary claim's request is what we raise: its nominal size is the one that its user asked for. What he raises, its own driver
// carries out.
function ordinaryCandidates(
  caches: Pick<Caches, "storageClasses">,
  claim: PersistentVolumeClaim,
  layout: FilesystemLayout,
): ClaimCandidates {
  const nominalBytes = quantityParameter(layout.metadata.annotations?.[RECORDS.requestedSize]) ?? requestBytes(claim);
  return {
    nominalBytes,
    initialSizeBytes: nominalBytes,
    classMaxBytes: undefined,
    raisedRequestBytes: undefined,
    otherAutoscaler: otherAutoscalerOf(claim, caches.storageClasses.store.get(claim.spec.storageClassName ?? "")),
    driver: driverOf(layout),
    infeasibleResize: infeasibleResize(claim, layout),
  };
}

function requestBytes({ spec }: PersistentVolumeClaim): number {
  return parseQuantity(spec.resources?.requests?.["storage"] ?? "0");
}

function infeasibleResize(claim: PersistentVolumeClaim, layout: FilesystemLayout): string | undefined {
  const resize = claimResizeOf(claim);
  if (resize?.stage !== "Infeasible") return undefined;
  return infeasibleMessage(resize, driverOf(layout));
}

/** An ordinary claim is its only member. */
function driverOf({ spec }: FilesystemLayout): string | undefined {
  return spec.members?.[0]?.source.claim?.driver;
}

// A class whose parameter cannot be read never made a volume: CreateVolume refuses it by name.
function quantityParameter(text: string | undefined): number | undefined {
  try {
    return text === undefined ? undefined : parseQuantity(text);
  } catch {
    return undefined;
  }
}

/** Bytes; undefined when nothing is asked for. */
export function raisedRequestBytes(claim: PersistentVolumeClaim, layout: FilesystemLayout): number | undefined {
  const requestBytes = parseQuantity(claim.spec.resources?.requests?.["storage"] ?? "0");
  const providedBytes = parseQuantity(claim.status?.capacity?.["storage"] ?? "0");
  const isRaised = providedBytes > 0 && requestBytes > providedBytes;
  return isRaised || wasAskedForInVain(layout, requestBytes) ? requestBytes : undefined;
}

/** The claim says that it is provided as soon as the layout carries the target; what became of it the node says. */
function wasAskedForInVain({ status }: FilesystemLayout, requestBytes: number): boolean {
  const last = status?.lastOperation;
  return last?.kind === "Extend" && last.outcome === "Failed" && parseQuantity(last.to) === requestBytes;
}

/** Undefined: no quota limits the storage of the namespace. */
export function quotaFactsOf(
  caches: Pick<Caches, "claims" | "quotas">,
  promises: Pick<PromisesLedger, "othersOver">,
  claim: ClaimFacts,
  handle: string,
): QuotaFacts | undefined {
  const quotas = storageQuotas(caches, claim.namespace);
  if (quotas.length === 0) return undefined;
  const object = caches.claims.store.get(claimKey(claim));
  const ownBytes = object === undefined ? claim.nominalBytes : requestBytes(object);
  return tightestQuota(
    quotas,
    { storageClassName: claim.storageClassName, requestBytes: ownBytes },
    promises.othersOver(handle),
  );
}

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
