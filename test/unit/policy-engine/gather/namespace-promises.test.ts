import { describe, expect, it } from "@jest/globals";
import type { SizeTarget } from "../../../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import type { PersistentVolumeClaim } from "../../../../src/contracts/kubernetes/resources.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { createNamespacePromises } from "../../../../src/policy-engine/gather/namespace-promises.ts";
import { buildClaim } from "../../../builders/claim.ts";
import { NOW_MS } from "../../../builders/facts.ts";
import { buildLayout, VOLUME_UID } from "../../../builders/filesystem-layout.ts";
import { engineCaches } from "../../../fakes/engine-caches.ts";

type Spec = Partial<FilesystemLayout["spec"]>;
type Status = NonNullable<FilesystemLayout["status"]>;

const at = (second: number): string => new Date(NOW_MS + second * 1000).toISOString();
const target = (size: string, second: number): SizeTarget => ({ size, from: "10Gi", epoch: 1, decidedAt: at(second) });
const grant = (size: string, expiresInS: number, epoch = 1) => ({
  emergency: { size, minAvailable: "1Gi", expiry: at(expiresInS), epoch },
});
const operation = { kind: "Extend", from: "10Gi", to: "20Gi", epoch: 1, startedAt: at(0) } as const;
const ended = (second: number): Status => ({
  lastOperation: { ...operation, outcome: "Failed", reached: "10Gi", endedAt: at(9), decidedAt: at(second) },
});

/** One volume of 10 GiB and an empty one beside it, which has to leave it what it has. */
function promised() {
  const caches = engineCaches();
  const promises = createNamespacePromises(caches, { monotonicMs: () => nowMs });
  let nowMs = NOW_MS;
  let generation = 1;
  caches.layouts.put({ ...buildLayout(), metadata: { name: "other" } });
  const see = (
    spec: Spec,
    status: Status = {},
    wanted?: SizeTarget,
    claimUID = "0a1b2c3d-0000-4000-8000-00000000000a",
  ) => {
    const layout = buildLayout(spec, {
      members: [{ name: "member-0", size: "10Gi", state: "Present" }],
      ...status,
    });
    generation += 1;
    if (wanted !== undefined)
      caches.filesystems.put({
        apiVersion: layout.apiVersion,
        kind: "Filesystem",
        metadata: { namespace: "shop", name: "data" },
        spec: { claimRef: { name: "data", uid: claimUID }, target: wanted },
      });
    caches.layouts.put({ ...layout, metadata: { name: "one", generation } });
  };
  const gib = (afterS = 0, pendingBytes = 0): number => {
    nowMs = NOW_MS + afterS * 1000;
    promises.begin("one", pendingBytes);
    return promises.othersBytes("other") / GIB;
  };
  return { promises, caches, see, gib, generation: () => generation };
}

describe("what a filesystem is promised", () => {
  const removed = { members: [{ name: "member-0", source: {}, state: "Removed" as const }] };
  it.each<[string, number, Parameters<ReturnType<typeof promised>["see"]>]>([
    ["is its size", 10, [{}]],
    ["is a target that was decided", 15, [{}, {}, target("15Gi", 1)]],
    ["is a target that was decided after the last operation", 15, [{}, ended(1), target("15Gi", 2)]],
    ["is no target that has ended", 10, [{}, ended(1), target("15Gi", 1)]],
    ["is no target that came too late", 12, [{ target: target("12Gi", 2) }, {}, target("15Gi", 1)]],
    ["is a target on the layout", 15, [{ target: target("15Gi", 1) }]],
    ["is no target on the layout that has ended", 10, [{ target: target("15Gi", 1) }, ended(1)]],
    ["is what an extend is on the way to", 20, [{}, { operation: { ...operation, step: "extending" } }]],
    ["is its size until a shrink is done", 10, [{ target: target("5Gi", 1) }, {}, target("5Gi", 1)]],
    ["is no target of a claim that was made anew", 10, [{}, {}, target("15Gi", 1), "another"]],
    ["is its grant", 14, [grant("14Gi", 60)]],
    [
      "is its grant whatever the date of its expiry: its node counts from when it has read it",
      14,
      [grant("14Gi", -90_000)],
    ],
    [
      "is no grant whose expiry is no date: no node spends it",
      10,
      [{ emergency: { ...grant("14Gi", 0).emergency, expiry: "soon" } }],
    ],
    ["is nothing more while it is removed", 10, [{ ...removed, ...grant("14Gi", 60), target: target("15Gi", 1) }]],
  ])("%s", (_name, gib, seen) => {
    const one = promised();
    one.see(...seen);
    expect(one.gib()).toBe(gib);
  });

  describe("where another driver provides it", () => {
    const ordinary = (target?: SizeTarget): Spec => ({
      backend: "claim",
      members: [{ name: "claim", source: { claim: { name: "data", volumeName: "pv-data", capacity: "10Gi" } } }],
      ...(target && { target }),
    });
    const claimSays = (request: string, capacity = "10Gi", uid = VOLUME_UID): PersistentVolumeClaim => {
      const claim = buildClaim({ name: "data", namespace: "shop", request });
      return { ...claim, metadata: { ...claim.metadata, uid }, status: { capacity: { storage: capacity } } };
    };

    it.each<[string, number, PersistentVolumeClaim, SizeTarget | undefined, SizeTarget | undefined]>([
      ["is what its driver has provided", 10, claimSays("10Gi"), undefined, undefined],
      ["is a target that was decided", 15, claimSays("10Gi"), undefined, target("15Gi", 1)],
      ["is what the claim asks for", 15, claimSays("15Gi"), target("15Gi", 1), target("15Gi", 1)],
      ["is no target that was set aside", 10, claimSays("10Gi"), target("15Gi", 1), target("15Gi", 1)],
      ["is what its user has lowered it to", 12, claimSays("12Gi"), target("15Gi", 1), target("15Gi", 1)],
      ["is what its driver has rounded up to", 16, claimSays("15Gi", "16Gi"), undefined, undefined],
      [
        "is nothing that another claim of its name asks for",
        10,
        claimSays("90Gi", "90Gi", "another"),
        undefined,
        undefined,
      ],
    ])("%s", (_name, gib, claim, carried, wanted) => {
      const one = promised();
      one.see(ordinary(carried), {}, wanted);
      one.caches.claims.put(claim);
      expect(one.gib()).toBe(gib);
    });
  });

  it("is a target that is being written, and one that was decided, until it is decided again", () => {
    const { see, gib, promises } = promised();
    see({});
    expect(gib(0, 15 * GIB)).toBe(15);
    promises.extending("one", 16 * GIB);
    expect(promises.othersBytes("other")).toBe(16 * GIB);
    expect(gib()).toBe(10);
  });

  it("is a grant that is being written, until it is on the layout or has not come", () => {
    const { see, gib, promises } = promised();
    see({});
    promises.granting("one", 14 * GIB, 1);
    expect(gib(29)).toBe(14);
    expect(gib(31)).toBe(10);
    expect(gib()).toBe(10);
    promises.granting("one", 14 * GIB, 1);
    see(grant("14Gi", 60));
    see({}, { observedGeneration: 99 });
    expect(gib()).toBe(10);
  });

  it("is a grant that was taken back, until the agent has seen that, or can have it no longer", () => {
    const { see, gib, generation } = promised();
    see(grant("14Gi", 60));
    see(grant("12Gi", 60), { observedGeneration: generation() });
    expect(gib()).toBe(14);
    see(grant("12Gi", 60), { observedGeneration: generation() });
    expect(gib()).toBe(12);
    see({}, { observedGeneration: generation() });
    expect(gib()).toBe(12);
    // It may have read the grant right before, and counts a day from then.
    expect(gib(86_400)).toBe(12);
    expect(gib(86_461)).toBe(10);
  });

  it("is a grant that a smaller one replaced before any cache showed it, until the agent has seen that", () => {
    const { see, gib, promises, generation } = promised();
    see({});
    promises.granting("one", 14 * GIB, 1);
    promises.granting("one", 12 * GIB, 1);
    see(grant("12Gi", 60));
    expect(gib(31)).toBe(14);
    see(grant("12Gi", 60), { observedGeneration: generation() });
    expect(gib(31)).toBe(12);
  });

  it("is a grant that was taken back before any cache showed it, until the agent has seen that", () => {
    const { see, gib, promises, generation } = promised();
    see(grant("12Gi", 60));
    promises.granting("one", 14 * GIB, 1);
    promises.granting("one", 0, 1);
    see({}, { observedGeneration: generation() });
    expect(gib(31)).toBe(14);
    see({}, { observedGeneration: generation() });
    expect(gib(31)).toBe(10);
  });

  it("is a grant that is being written after one was taken back, which caches show first", () => {
    const { see, gib, promises, generation } = promised();
    see(grant("12Gi", 60));
    promises.granting("one", 0, 1);
    promises.granting("one", 14 * GIB, 1);
    see({}, { observedGeneration: generation() + 1 });
    expect(gib(1)).toBe(14);
    see(grant("14Gi", 60), { observedGeneration: generation() + 1 });
    expect(gib(31)).toBe(14);
  });

  it("is a grant that only a deposed leader has replaced: its agent refuses that", () => {
    const { see, gib, generation } = promised();
    see(grant("14Gi", 60, 2));
    see(grant("12Gi", 60, 1));
    see(grant("12Gi", 60, 1), { observedGeneration: generation() });
    expect(gib()).toBe(14);
    see(grant("12Gi", 60, 2), { observedGeneration: generation() + 1 });
    expect(gib()).toBe(12);
  });

  it("is nothing once it is gone, or is another namespace's", () => {
    const { see, promises, caches } = promised();
    see(grant("14Gi", 60));
    caches.layouts.remove("one");
    expect(promises.othersBytes("other")).toBe(0);
    see(grant("14Gi", 60));
    see({ claimRef: { namespace: "web", name: "data", uid: "u" } });
    expect(promises.othersBytes("other")).toBe(0);
  });
});
