// What members hold of their classes' storage, and for whose claim: whoever pays for a class finds the namespace by it.
import { Gauge, type Registry } from "prom-client";
import { parseQuantity } from "../../units/quantity.ts";
import type { VolumeCaches } from "../volume/volume-caches.ts";

export interface MemberBytes {
  readonly namespace: string;
  readonly persistentvolumeclaim: string;
  readonly storageclass: string;
  readonly bytes: number;
}

/** Read from the caches when Prometheus asks. */
export function registerMemberBytes(registry: Registry, caches: Pick<VolumeCaches, "layouts" | "memberClaims">): void {
  const gauge: Gauge<"namespace" | "persistentvolumeclaim" | "storageclass"> = new Gauge({
    name: "tidemark_member_bytes",
    help: "Bytes of members' claims, by the claim whose filesystem they are part of and by their own StorageClass.",
    labelNames: ["namespace", "persistentvolumeclaim", "storageclass"],
    registers: [registry],
    collect: () => {
      gauge.reset();
      for (const { bytes, ...labels } of memberBytes(caches)) gauge.inc(labels, bytes);
    },
  });
}

/** One entry for each member: what its claim has, and before that what it asks for. A member whose layout is lost is nobody's. */
export function memberBytes({ layouts, memberClaims }: Pick<VolumeCaches, "layouts" | "memberClaims">): MemberBytes[] {
  return layouts.store.list().flatMap(({ metadata, spec }) =>
    memberClaims.store.byIndex("volume", metadata.name).map((claim) => ({
      namespace: spec.claimRef?.namespace ?? "",
      persistentvolumeclaim: spec.claimRef?.name ?? "",
      storageclass: claim.spec.storageClassName ?? "",
      bytes: parseQuantity(claim.status?.capacity?.storage ?? claim.spec.resources?.requests?.storage ?? "0"),
    })),
  );
}
