import { describe, expect, it } from "@jest/globals";
import type { Filesystem } from "../../../../src/api/filesystem.ts";
import type { FilesystemLayout } from "../../../../src/api/filesystem-layout.ts";
import type { PersistentVolumeClaim } from "../../../../src/kube/resources.ts";
import { type ChangesFollowed, followChanges } from "../../../../src/policy-engine/engine/follow-objects.ts";
import { createVolumeRegistry } from "../../../../src/policy-engine/gather/volume-registry.ts";
import { GIB } from "../../../../src/units/quantity.ts";
import { NOW_MS } from "../../../builders/facts.ts";
import { anOrdinaryClaim } from "../../../builders/ordinary-claim.ts";
import { cacheOf } from "../../../harness/budgeted-namespace.ts";

function followed() {
  const caches = {
    layouts: cacheOf<FilesystemLayout>(),
    filesystems: cacheOf<Filesystem>(),
    claims: cacheOf<PersistentVolumeClaim>(),
  };
  const registry = createVolumeRegistry();
  const evaluated: string[] = [];
  followChanges({
    caches: caches as unknown as ChangesFollowed["caches"],
    registry,
    engine: { evaluate: (handle) => evaluated.push(handle) },
    clock: { nowMs: () => NOW_MS, monotonicMs: () => NOW_MS },
    onCountChanged: () => {},
    onEpoch: () => {},
  });
  return { caches, registry, evaluated };
}

describe("a claim of another driver", () => {
  const { handle, layout, claim } = anOrdinaryClaim();
  const grown = anOrdinaryClaim({ request: "12Gi", capacity: "12Gi" }).claim;

  it.each<[string, "claim" | "layout"]>([
    ["after its layout", "layout"],
    ["before its layout", "claim"],
  ])("that is heard of %s is seen to grow from what it had then", (_when, first) => {
    const { caches, registry } = followed();
    if (first === "layout") caches.layouts.put(layout);
    caches.claims.put(claim);
    if (first === "claim") caches.layouts.put(layout);
    caches.claims.put(grown);
    expect(registry.get(handle).claimGrowth).toMatchObject({ sizeBytes: 12 * GIB, grownAtMs: NOW_MS });
  });

  it("that is heard of after its layout is decided then", () => {
    const { caches, evaluated } = followed();
    caches.layouts.put(layout);
    caches.claims.put(claim);
    expect(evaluated).toEqual([handle]);
  });

  it("that was made anew under the same name is another one", () => {
    const { caches, registry } = followed();
    caches.layouts.put(layout);
    caches.claims.put({ ...grown, metadata: { ...grown.metadata, uid: "another" } });
    expect(registry.get(handle).claimGrowth).toBeUndefined();
  });
});
