import { describe, expect, it } from "@jest/globals";
import type { Filesystem } from "../../../../src/contracts/kinds/filesystem.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { followChanges } from "../../../../src/policy-engine/engine/decisions.ts";
import { createEngine, type EngineOptions } from "../../../../src/policy-engine/engine/engine.ts";
import { createVolumeRegistry } from "../../../../src/policy-engine/gather/volume-registry.ts";
import { NOW_MS } from "../../../builders/facts.ts";
import { anOrdinaryClaim } from "../../../builders/ordinary-claim.ts";
import { engineCaches } from "../../../fakes/engine-caches.ts";

function followed(isLeader = true) {
  const caches = engineCaches();
  const registry = createVolumeRegistry();
  const evaluated: string[] = [];
  followChanges({
    caches,
    registry,
    engine: { evaluate: (handle) => evaluated.push(handle) },
    leadership: { isLeader: () => isLeader, agentKnows: () => {} },
    clock: { nowMs: () => NOW_MS, monotonicMs: () => NOW_MS },
    onCountChanged: () => {},
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

describe("what the leader reports of a volume", () => {
  const { handle, filesystem } = anOrdinaryClaim();
  const reporting = (flappedAt: readonly string[], peakBeforeShrink: string): Filesystem => ({
    ...filesystem,
    status: {
      ...filesystem.status,
      volumeHandle: handle,
      scaling: { plan: "hold", reason: "WithinBounds", message: "", flappedAt: [...flappedAt], peakBeforeShrink },
    },
  });
  const [first, second] = [2, 1].map((hours) => new Date(NOW_MS - hours * 3_600_000).toISOString());

  it.each([
    ["that waits to lead learns, so that it does not erase it with its first own report", false, 2, 8 * GIB],
    ["that leads knows already", true, 1, 3 * GIB],
  ])("a replica %s", (_which, isLeader, flaps, peakBytes) => {
    const { caches, registry } = followed(isLeader);
    caches.filesystems.put(reporting([first ?? ""], "3Gi"));
    caches.filesystems.put(reporting([first ?? "", second ?? ""], "8Gi"));
    expect(registry.get(handle).flaps).toHaveLength(flaps);
    expect(registry.get(handle).peakBeforeShrinkBytes).toBe(peakBytes);
  });
});

it("a volume whose layout was deleted during a round is neither decided nor remembered again", async () => {
  const remembered: string[] = [];
  const { clock, caches } = { clock: { nowMs: () => 0, monotonicMs: () => 0 }, caches: engineCaches() };
  const options = {
    registry: { get: (handle: string) => remembered.push(handle) },
    world: { caches, rates: { forgetSilent: () => {} } },
    ...{ clock, epoch: () => 1 },
  };
  // eslint-disable-next-line no-restricted-syntax -- nothing else of it may be asked
  const engine = createEngine(options as unknown as EngineOptions);
  await engine.evaluateAll(["deleted"]);
  engine.evaluate("deleted");
  expect(engine.look("deleted")).toBeUndefined();
  expect(remembered).toEqual([]);
});
