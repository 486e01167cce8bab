// After a shrink that could not be had, or is not wanted any more: how often the engine asks again, and what it writes meanwhile, by the real
// engine over 20 minutes of a short cooldown. The test plays the API server, the operator and the node.

import { beforeEach, describe, expect, it } from "@jest/globals";
import { filesystemSizeBytes } from "../../../../src/contracts/formulas/filesystem-size.ts";
import { Sample } from "../../../../src/contracts/gen/tidemark/samples/v1/samples.ts";
import type { Filesystem } from "../../../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout, LastOperation } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import type { KubeObject } from "../../../../src/contracts/kubernetes/object.ts";
import { formatQuantity, GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import type { Condition } from "../../../../src/contracts/schema/schema.ts";
import { decideMembers } from "../../../../src/operator/decide/members/decide-members.ts";
import { createOwnWrites } from "../../../../src/platform/kube/client/writes.ts";
import { type Clock, instantOf } from "../../../../src/platform/process/clock.ts";
import { createEngine } from "../../../../src/policy-engine/engine/engine.ts";
import { createNamespacePromises } from "../../../../src/policy-engine/gather/namespace-promises.ts";
import { createChangeRates } from "../../../../src/policy-engine/gather/rates/change-rates.ts";
import { createVolumeRegistry } from "../../../../src/policy-engine/gather/volume-registry.ts";
import { createEngineMetrics } from "../../../../src/policy-engine/metrics.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import { buildClaim } from "../../../builders/claim.ts";
import { NOW_MS } from "../../../builders/facts.ts";
import { aPolicy } from "../../../builders/policy.ts";
import { engineCaches } from "../../../fakes/engine-caches.ts";
import { createRecordingLog } from "../../../fakes/recording-log.ts";
import { type Served, servedClient } from "../../../fakes/served-client.ts";
import { carriedOut, written } from "../../../harness/span-steps.ts";

const HANDLE = "fs-1";
const NODE = "node-a";
const named = { namespace: "shop", name: "data-0", uid: "uid-1" };
const shrinking: Parameters<typeof aPolicy>[0] = {
  limits: { min: "1Gi", max: "100Gi" },
  rules: [{ name: "shrink-below-30", action: "Shrink", when: "volume.usedRatio < 0.3", targetUsed: "50%" }],
  behavior: { shrink: { stabilization: "0s", cooldown: "2s" } },
};
const policy = aPolicy(shrinking);

/** Both of its clocks run alike here; the engine has run for two days when it begins. */
const clock: Clock = { nowMs: () => nowMs, monotonicMs: () => nowMs - NOW_MS + 172_800_000 };

let nowMs: number;
let usedBytes: number;
let writes: string[];
let filesystem: Filesystem;
let layout: FilesystemLayout;
/** What becomes of a target that stands. */
let carryOut: (target: NonNullable<Filesystem["spec"]["target"]>) => void;
let isSuspended: boolean;
/** The cache shows the Filesystem as it was. */
let isBehind: boolean;
let engine: ReturnType<typeof startEngine>;

function startEngine() {
  const caches = engineCaches();
  const registry = createVolumeRegistry();
  const apply: Served["apply"] = async (point, _resource, applied) => {
    writes.push(point);
    const object: KubeObject & Partial<Pick<Filesystem, "spec" | "status">> = applied;
    if (object.metadata.name === HANDLE) {
      layout = { ...layout, spec: { ...layout.spec, ...object.spec } };
      return layout;
    }
    const conditions = filesystem.status?.conditions;
    filesystem = {
      ...filesystem,
      spec: { ...filesystem.spec, ...object.spec },
      ...(object.status && { status: { ...object.status, ...(conditions && { conditions }) } }),
    };
    return filesystem;
  };
  const started = createEngine({
    ownGrants: createOwnWrites(clock),
    client: servedClient({ apply }),
    events: { record: () => {}, flush: async () => {} },
    registry,
    world: {
      caches,
      promises: createNamespacePromises(caches, clock),
      rates: createChangeRates(caches, clock),
      evaluationIntervalMs: 15_000,
      approvals: { forClaim: () => [] },
      metricsStale: () => false,
    },
    policies: {
      forClaim: () => ({
        policy: isSuspended ? aPolicy({ ...shrinking, suspend: true }) : policy,
        conflicts: [],
        ceilings: NO_CEILINGS,
      }),
      entries: () => [],
      invalidate: () => {},
    },
    samples: { guide: () => true },
    ruleErrors: { note: () => {} },
    metrics: createEngineMetrics(() => true),
    clusterRate: { take: () => true, turnMs: () => 0 },
    onDecided: () => {},
    onWritten: () => {},
    epoch: () => 3,
    clock,
    log: createRecordingLog().log,
  });
  caches.claims.put({
    ...buildClaim({ ...named, request: "1Gi", storageClassName: "tidemark-span" }),
    metadata: { ...named, creationTimestamp: "2026-11-01T00:00:00Z" },
  });
  return { caches, registry, decide: () => started.evaluateAll([HANDLE]).then(() => started.settled()) };
}

const sizeBytes = (): number => filesystemSizeBytes(layout) ?? 0;

async function secondsPass(seconds: number): Promise<void> {
  for (let second = 0; second < seconds; second += 1) {
    nowMs += 1000;
    const figures = { capacityBytes: sizeBytes(), availableBytes: sizeBytes() - usedBytes, sizeBytes: sizeBytes() };
    const sample = { volumeHandle: HANDLE, sampledAtMs: nowMs - 100, nodeFreeBytes: 4096 * GIB, ...figures };
    engine.registry.sampled(NODE, Sample.fromPartial(sample), instantOf(clock));
    if (!isBehind) engine.caches.filesystems.put(filesystem);
    engine.caches.layouts.put(layout);
    engine.registry.layoutSeen(layout, instantOf(clock));
    await engine.decide();
    const { target } = filesystem.spec;
    if (target !== undefined && target.decidedAt !== layout.status?.lastOperation?.decidedAt) carryOut(target);
  }
}
const targets = (): number => writes.filter((point) => point === "target/apply-filesystem").length;

/** The node's end of it: nothing could be given back. */
function endAtFloor(floorBytes: number): typeof carryOut {
  return ({ size, from, epoch, decidedAt }) => {
    const at = new Date(nowMs).toISOString();
    const lastOperation: LastOperation = {
      kind: "Shrink",
      outcome: "FloorReached",
      from,
      to: size,
      reached: from,
      floor: formatQuantity(floorBytes),
      used: formatQuantity(usedBytes),
      epoch,
      decidedAt,
      startedAt: at,
      endedAt: at,
    };
    layout = {
      ...layout,
      spec: { ...layout.spec, target: { size, from, epoch, decidedAt } },
      status: { ...layout.status, lastOperation },
    };
  };
}

beforeEach(() => {
  nowMs = NOW_MS;
  usedBytes = 198 * MIB;
  writes = [];
  isSuspended = false;
  isBehind = false;
  const apiVersion = "tidemark.dev/v1alpha1";
  filesystem = {
    apiVersion,
    kind: "Filesystem",
    metadata: named,
    spec: { claimRef: { name: named.name, uid: named.uid } },
  };
  layout = {
    apiVersion,
    kind: "FilesystemLayout",
    metadata: { name: HANDLE, uid: "layout-1", generation: 1, resourceVersion: "1" },
    spec: { claimRef: named, backend: "span", fsType: "btrfs", nodeName: NODE },
    status: {
      nodeName: NODE,
      mounted: true,
      observedGeneration: 1,
      members: [{ name: "m0", size: "5Gi", state: "Present" }],
    },
  };
  engine = startEngine();
});

describe("a shrink that has found its floor", () => {
  it("is asked for once in 20 minutes, and nothing more is written, while the filesystem can give nothing back", async () => {
    carryOut = endAtFloor(5 * GIB);
    await secondsPass(60);
    const before = writes.length;
    expect(targets()).toBe(1);
    expect(filesystem.status?.scaling).toMatchObject({ reason: "ShrinkFloorReached" });
    expect(filesystem.status?.scaling?.message).toMatch(/its use changes by 64Mi/);
    await secondsPass(1140);
    expect(writes.slice(before)).toEqual([]);
  });

  it("is asked for again once the use has changed by 64 MiB or a hundredth of the size, and no sooner", async () => {
    carryOut = endAtFloor(5 * GIB);
    await secondsPass(60);
    usedBytes += 63 * MIB;
    await secondsPass(60);
    expect(targets()).toBe(1);
    usedBytes -= 127 * MIB;
    await secondsPass(60);
    expect(targets()).toBe(2);
    expect(filesystem.spec.target).toMatchObject({ from: "5Gi" });
  });

  it("is asked for as far as it can be had: the next target is the floor", async () => {
    carryOut = endAtFloor(3 * GIB);
    await secondsPass(60);
    expect(filesystem.spec.target).toMatchObject({ size: "3Gi", from: "5Gi" });
    // That has found the same floor: it is not to be had either.
    await secondsPass(60);
    expect(targets()).toBe(2);
  });

  it("is asked for again after a day, since not all that moves a floor is reported", async () => {
    carryOut = endAtFloor(5 * GIB);
    await secondsPass(60);
    nowMs += 86_400_000 - 120_000;
    await secondsPass(5);
    expect(targets()).toBe(1);
    nowMs += 120_000;
    await secondsPass(5);
    expect(targets()).toBe(2);
  });

  it("is remembered where a replacement was taken back, with which the node's last operation has succeeded", async () => {
    const reachFloor = endAtFloor(5 * GIB);
    carryOut = (target) => {
      reachFloor(target);
      carryOut = takeBack;
    };
    // As the operator decides it, and the agent ends it.
    const takeBack: typeof carryOut = () => undefined;
    await secondsPass(2);
    const floor = layout.status?.lastOperation as LastOperation;
    const decidedAt = new Date(Date.parse(floor.decidedAt ?? "") + 1).toISOString();
    const lastOperation: LastOperation = { ...floor, outcome: "Succeeded", from: "8Gi", to: "5Gi", decidedAt };
    layout = { ...layout, status: { ...layout.status, lastOperation } };
    await secondsPass(600);
    expect(targets()).toBe(1);
    expect(filesystem.status?.scaling).toMatchObject({ reason: "ShrinkFloorReached" });
    usedBytes += 127 * MIB;
    carryOut = reachFloor;
    await secondsPass(60);
    expect(targets()).toBe(2);
  });

  it("is no floor of a shrink that was decided by a policy and has succeeded", async () => {
    const reachFloor = endAtFloor(5 * GIB);
    let ended = 0;
    carryOut = (target) => {
      ended += 1;
      reachFloor(target);
      const lastOperation = { ...layout.status?.lastOperation, outcome: "Succeeded" } as LastOperation;
      layout = { ...layout, status: { ...layout.status, lastOperation } };
    };
    await secondsPass(60);
    expect(ended).toBeGreaterThan(1);
  });

  it("does not stand where its node does not tell what was in use: then the cooldown alone holds", async () => {
    const ended = endAtFloor(5 * GIB);
    carryOut = (target) => {
      ended(target);
      const { used: _used, ...last } = layout.status?.lastOperation as LastOperation;
      layout = { ...layout, status: { ...layout.status, lastOperation: last } };
    };
    await secondsPass(60);
    expect(targets()).toBeGreaterThan(10);
  });
});

describe("a filesystem that takes no writes", () => {
  const says = (type: string, status: Condition["status"], reason: string): Condition => ({
    ...{ type, status, reason },
    message: "remount it",
    lastTransitionTime: new Date(NOW_MS).toISOString(),
  });
  const isReadOnly = (): void => {
    const conditions = [says("Ready", "False", "ReadOnly"), says("Stalled", "True", "ReadOnly")];
    layout = { ...layout, status: { ...layout.status, conditions } };
  };

  it("is asked for nothing, and that is said once, until it takes writes again", async () => {
    isReadOnly();
    carryOut = () => undefined;
    await secondsPass(60);
    const before = writes.length;
    await secondsPass(240);
    expect(targets()).toBe(0);
    expect(writes.slice(before)).toEqual([]);
    expect(filesystem.status?.scaling).toMatchObject({ reason: "ReadOnly", message: "remount it" });
    layout = { ...layout, status: { ...layout.status, conditions: [says("Ready", "True", "Ready")] } };
    await secondsPass(5);
    expect(targets()).toBe(1);
  });

  it("is asked for no more than what was asked for before it stopped", async () => {
    carryOut = isReadOnly;
    await secondsPass(240);
    expect(targets()).toBe(1);
  });

  it("holds for no such reason while it is mounted nowhere", async () => {
    isReadOnly();
    layout = { ...layout, status: { ...layout.status, mounted: false } };
    await secondsPass(5);
    expect(filesystem.status?.scaling).toMatchObject({ reason: "NotMounted" });
  });
});

describe("a shrink that the operator has no members for", () => {
  const refuse = (): void => {
    const message = "4Gi could be given back, but it has only one member";
    const lastTransitionTime = new Date(nowMs).toISOString();
    const said: Condition = {
      type: "Reconciling",
      status: "False",
      reason: "ShrinkFloorReached",
      message,
      lastTransitionTime,
    };
    filesystem = { ...filesystem, status: { ...filesystem.status, conditions: [said] } };
  };

  it("is asked for once in 20 minutes, and is held in the operator's words", async () => {
    carryOut = refuse;
    await secondsPass(60);
    const before = writes.length;
    await secondsPass(1140);
    expect(targets()).toBe(1);
    expect(writes.slice(before)).toEqual([]);
    expect(filesystem.status?.scaling).toMatchObject({
      reason: "ShrinkFloorReached",
      message: expect.stringContaining("only one member"),
    });
  });

  it("is asked for again after an hour", async () => {
    carryOut = refuse;
    await secondsPass(60);
    nowMs += 3_600_000;
    await secondsPass(5);
    expect(targets()).toBe(2);
  });
});

describe("a shrink that waits for a smaller member, which takes a larger one's place", () => {
  const rules = { className: "member-class", maxMembers: 2, spareMembers: 0, strategy: "Auto" as const };
  const made = (): string[] => (layout.spec.members ?? []).map(({ name, size, state }) => `${name} ${size} ${state}`);
  /** As the operator does, of a driver that takes so long for a volume. */
  const makeMembersIn = (seconds: number): typeof carryOut => {
    const madeAtMs = new Map<string, number>();
    const isMade = ({ name }: { name: string }): boolean => nowMs - (madeAtMs.get(name) ?? nowMs) >= seconds * 1000;
    return (target) => {
      const plan = decideMembers(layout, target, { rules, mayGrow: false, growthFailed: false });
      if (plan.do === "change") layout = written(layout, plan);
      for (const { name } of layout.spec.members ?? []) madeAtMs.set(name, madeAtMs.get(name) ?? nowMs);
      if (layout.spec.members?.slice(1).every(isMade)) layout = carriedOut(layout);
    };
  };

  beforeEach(() => {
    layout = {
      ...layout,
      spec: { ...layout.spec, members: [{ name: "m0", size: "5Gi", state: "Present", source: {} }] },
    };
  });

  it("is decided once, and the one that was made takes the place, however slow its driver is within ten minutes", async () => {
    carryOut = makeMembersIn(120);
    await secondsPass(119);
    expect([targets(), made()]).toEqual([1, ["m0 5Gi Present", "m1 1Gi Spare"]]);
    await secondsPass(10);
    expect([targets(), made()]).toEqual([1, ["m1 1Gi Present"]]);
  });

  it("is decided anew after ten minutes, and goes on with the one that is being made", async () => {
    carryOut = makeMembersIn(900);
    await secondsPass(899);
    expect([targets(), made()]).toEqual([2, ["m0 5Gi Present", "m1 1Gi Spare"]]);
    await secondsPass(10);
    expect(made()).toEqual(["m1 1Gi Present"]);
  });
});

describe("a shrink that runs and is not wanted any more", () => {
  const begin: typeof carryOut = ({ size, from, epoch, decidedAt }) => {
    if (layout.status?.operation !== undefined) return;
    const operation = {
      kind: "Shrink" as const,
      step: "Resizing",
      from,
      to: size,
      epoch,
      decidedAt,
      startedAt: decidedAt,
    };
    layout = {
      ...layout,
      spec: { ...layout.spec, target: { size, from, epoch, decidedAt } },
      status: { ...layout.status, operation },
    };
  };

  it("is asked to stop once, and every five seconds where no cache shows that it was", async () => {
    carryOut = begin;
    await secondsPass(40);
    expect(targets()).toBe(1);
    isBehind = true;
    isSuspended = true;
    await secondsPass(4);
    expect(targets()).toBe(2);
    await secondsPass(16);
    expect(targets()).toBe(5);
    isBehind = false;
    await secondsPass(30);
    expect(targets()).toBe(5);
    expect(filesystem.spec.target).toMatchObject({ size: "5Gi", from: "5Gi" });
  });
});
