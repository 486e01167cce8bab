// A fleet twice, under two engines that hear the same: one decides each volume in each round, the other those whose decision stands no more.
// What they write and what they ask agents to watch is the same, whatever changes.
import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import type { Filesystem } from "../../../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import type { VolumePolicySpec } from "../../../../src/contracts/kinds/volume-policy.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import type { ApplyConfiguration } from "../../../../src/platform/kube/client/client.ts";
import { createOwnWrites } from "../../../../src/platform/kube/client/writes.ts";
import { type Clock, instantOf } from "../../../../src/platform/process/clock.ts";
import { createEngine } from "../../../../src/policy-engine/engine/engine.ts";
import { createNamespacePromises } from "../../../../src/policy-engine/gather/namespace-promises.ts";
import { createPolicyBook } from "../../../../src/policy-engine/gather/policy-book.ts";
import { createChangeRates } from "../../../../src/policy-engine/gather/rates/change-rates.ts";
import { createVolumeRegistry } from "../../../../src/policy-engine/gather/volume-registry.ts";
import { createEngineMetrics } from "../../../../src/policy-engine/metrics.ts";
import { buildClaim } from "../../../builders/claim.ts";
import { NOW_MS } from "../../../builders/facts.ts";
import { aClusterPolicy, aVolumePolicy, EXTEND_AT_80 } from "../../../builders/policy.ts";
import { engineCaches } from "../../../fakes/engine-caches.ts";
import { createRecordingLog } from "../../../fakes/recording-log.ts";
import { servedClient } from "../../../fakes/served-client.ts";
import { property } from "../../../harness/property.ts";

const VOLUMES = [0, 1, 2, 3] as const;
const ROUND_MS = 15_000;
const metrics = createEngineMetrics(() => true);
const SHRINK = {
  name: "shrink",
  action: "Shrink",
  when: "volume.usedRatioMax('2m') < 0.3",
  targetUsed: "50%",
} as const;
const SOON = { shrink: { cooldown: "1m", stabilization: "0s" } } as const;

/** What teams write. */
const SPECS: readonly Partial<VolumePolicySpec>[] = [
  { rules: [EXTEND_AT_80, SHRINK], behavior: SOON },
  { rules: [EXTEND_AT_80], limits: { max: "12Gi" }, trim: { every: "1h" } },
  { rules: [EXTEND_AT_80], suspend: true },
  { rules: [{ name: "old", action: "Extend", when: "volume.ageSeconds > 1000.0", by: "1Gi" }] },
  { rules: [{ ...EXTEND_AT_80, when: "has(volume.labels.tier) && volume.labels.tier == 'hot'" }] },
  { rules: [EXTEND_AT_80, { ...SHRINK, when: "volume.usedBytesMax('1m') < 1073741824" }], behavior: SOON },
];

type World = ReturnType<typeof aWorld>;

/** Four volumes of 10 GiB in two namespaces, as one engine sees them. */
function aWorld(at: { nowMs: number; monotonicMs: number }) {
  const clock: Clock = { nowMs: () => at.nowMs, monotonicMs: () => at.monotonicMs };
  const [caches, registry] = [engineCaches(), createVolumeRegistry()];
  const said: string[] = [];
  const process = { epoch: 1, stale: false, generation: 1 };
  const client = servedClient({
    get: async ({ kind }, { namespace, name }) =>
      kind === "Filesystem" ? caches.filesystems.store.get(`${namespace}/${name}`) : caches.layouts.store.get(name),
    apply: async (point, { kind }, object) => {
      said.push(`${point} ${JSON.stringify(object)}`);
      return kind === "Filesystem" ? putFilesystem(caches, object) : putLayout(caches, object);
    },
  });
  const promises = createNamespacePromises(caches, clock);
  const book = createPolicyBook(caches, clock.monotonicMs, () => {});
  const engine = createEngine({
    ownGrants: createOwnWrites(clock),
    client,
    events: { record: () => {}, flush: async () => {} },
    registry,
    world: {
      caches,
      promises,
      rates: createChangeRates(caches, clock),
      approvals: { forClaim: () => [] },
      evaluationIntervalMs: ROUND_MS,
      metricsStale: () => process.stale,
    },
    policies: book,
    samples: {
      guide: (node, marks) => {
        said.push(`${node} ${JSON.stringify(marks)}`);
        return true;
      },
    },
    metrics,
    clusterRate: { take: () => true, turnMs: () => 0 },
    ruleErrors: { note: () => {} },
    onDecided: () => {},
    onWritten: () => {},
    epoch: () => process.epoch,
    clock,
    log: createRecordingLog().log,
  });
  caches.layouts.subscribe({
    added: (layout) => registry.layoutSeen(layout, instantOf(clock)),
    updated: (layout) => registry.layoutSeen(layout, instantOf(clock)),
  });
  for (const volume of VOLUMES) {
    const { claim, filesystem, layout } = objectsOf(volume);
    caches.claims.put(claim);
    caches.filesystems.put(filesystem);
    caches.layouts.put(layout);
  }
  return { caches, registry, promises, engine, book, said, process, used: VOLUMES.map(() => 0.5) };
}

function objectsOf(volume: number) {
  const [namespace, name] = [`team-${volume % 2}`, `data-${volume}`];
  const built = buildClaim({ namespace, name });
  const claim = {
    ...built,
    metadata: { ...built.metadata, uid: name, creationTimestamp: new Date(NOW_MS).toISOString() },
  };
  const filesystem: Filesystem = {
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "Filesystem",
    metadata: { namespace, name, uid: `fs-${name}` },
    spec: {},
    status: { volumeHandle: handleOf(volume) },
  };
  const layout: FilesystemLayout = {
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "FilesystemLayout",
    metadata: { name: handleOf(volume), uid: `layout-${name}`, generation: 1 },
    spec: { claimRef: { namespace, name, uid: name }, backend: "loop", fsType: "btrfs", nodeName: "node-a" },
    status: { mounted: true, members: [{ name: "m0", size: "10Gi", state: "Present" }] },
  };
  return { claim, filesystem, layout };
}

function handleOf(volume: number): string {
  return `volume-${volume}`;
}

type Caches = ReturnType<typeof engineCaches>;

async function putFilesystem(caches: Caches, said: ApplyConfiguration): Promise<Filesystem> {
  const live = caches.filesystems.store.get(`${said.metadata.namespace}/${said.metadata.name}`);
  if (live === undefined) throw new Error(`no Filesystem ${said.metadata.name}`);
  const [spec, status] = [said["spec"] as Filesystem["spec"] | undefined, said["status"] as Filesystem["status"]];
  const next = { ...live, spec: { ...live.spec, ...spec }, status: { ...live.status, ...status } };
  caches.filesystems.put(next);
  return next;
}

async function putLayout(caches: Caches, said: ApplyConfiguration): Promise<FilesystemLayout> {
  const live = caches.layouts.store.get(said.metadata.name);
  if (live === undefined) throw new Error(`no layout ${said.metadata.name}`);
  const spec = said["spec"] as FilesystemLayout["spec"];
  const next = { ...live, spec: { ...live.spec, emergency: spec.emergency } };
  caches.layouts.put(next);
  return next;
}

/** Something that happens to a volume, or to all of them. `size`: 0 to 1. */
type Change = (world: World, volume: number, size: number, nowMs: number) => void;

const relabel = (world: World, volume: number, tier: string): void => {
  const claim = world.caches.claims.store.get(`team-${volume % 2}/data-${volume}`);
  if (claim !== undefined) world.caches.claims.put({ ...claim, metadata: { ...claim.metadata, labels: { tier } } });
};
const reshape = (world: World, volume: number, status: FilesystemLayout["status"]): void => {
  const layout = world.caches.layouts.store.get(handleOf(volume));
  if (layout !== undefined) world.caches.layouts.put({ ...layout, status: { ...layout.status, ...status } });
};

const CHANGES: Readonly<Record<string, Change>> = {
  "nothing happens": () => {},
  "it fills": ({ used }, volume, size) => {
    used[volume] = size;
  },
  "it is nearly empty": ({ used }, volume) => {
    used[volume] = 0.02;
  },
  "its claim is relabelled": (world, volume, size) => relabel(world, volume, size < 0.5 ? "hot" : "cold"),
  "its request is raised": ({ caches }, volume, size) => {
    const claim = caches.claims.store.get(`team-${volume % 2}/data-${volume}`);
    if (claim === undefined) return;
    const storage = `${10 + Math.round(size * 4)}Gi`;
    caches.claims.put({
      ...claim,
      spec: { ...claim.spec, resources: { requests: { storage } } },
      status: { phase: "Bound", capacity: { storage: "10Gi" } },
    });
  },
  "its class gets a maximum": ({ caches }, _volume, size) =>
    caches.storageClasses.put({
      apiVersion: "storage.k8s.io/v1",
      kind: "StorageClass",
      metadata: { name: "tidemark-loop" },
      provisioner: "local.tidemark.dev",
      parameters: { maxSize: `${11 + Math.round(size * 4)}Gi` },
    }),
  "its namespace gets a quota": ({ caches }, volume, size) =>
    caches.quotas.put({
      apiVersion: "v1",
      kind: "ResourceQuota",
      metadata: { namespace: `team-${volume % 2}`, name: "storage" },
      spec: { hard: { "requests.storage": `${20 + Math.round(size * 8)}Gi` } },
      status: { used: { "requests.storage": "20Gi" } },
    }),
  "its policy is another": ({ caches, process }, volume, size) => {
    const { metadata, ...policy } = aVolumePolicy(SPECS[Math.floor(size * SPECS.length)]);
    process.generation += 1;
    const { generation } = process;
    caches.policies.put({ ...policy, metadata: { ...metadata, namespace: `team-${volume % 2}`, generation } });
  },
  "its policy is deleted": ({ caches }, volume) => caches.policies.remove(`team-${volume % 2}/default`),
  "a ceiling follows its namespace's labels": ({ caches }, volume, size) => {
    const namespaceSelector = { matchLabels: { strict: "yes" } };
    caches.clusterPolicies.put(aClusterPolicy({ rules: [], namespaceSelector, ceilings: { max: "11Gi" } }));
    const metadata = { name: `team-${volume % 2}`, labels: { strict: size < 0.5 ? "yes" : "no" } };
    caches.namespaces.put({ apiVersion: "v1", kind: "Namespace", metadata });
  },
  "it is unmounted, or mounted": (world, volume, size) => reshape(world, volume, { mounted: size < 0.5 }),
  "it is larger": (world, volume, size) =>
    reshape(world, volume, { members: [{ name: "m0", size: `${10 + Math.round(size * 3)}Gi`, state: "Present" }] }),
  "its node makes it read-only": (world, volume) =>
    reshape(world, volume, {
      conditions: [{ type: "Stalled", status: "True", reason: "ReadOnly", message: "it takes no writes", ...DATED }],
    }),
  "another leads": ({ process }) => {
    process.epoch += 1;
  },
  "Prometheus is silent, or answers": ({ process }, _volume, size) => {
    process.stale = size < 0.5;
  },
  "its agent is asked to be guided afresh": ({ registry }, volume) => {
    registry.get(handleOf(volume)).guided = undefined;
  },
  "an earlier engine has shrunk it": ({ registry }, volume, size, nowMs) =>
    registry.recall(
      handleOf(volume),
      { ...QUIET, shrunkAt: [new Date(nowMs - size * 7_200_000).toISOString()] },
      { nowMs, monotonicMs: nowMs },
    ),
};
const QUIET = {
  plan: "hold",
  reason: "WithinBounds",
  message: "all is well",
  decidedAt: new Date(NOW_MS).toISOString(),
} as const;
const DATED = { lastTransitionTime: new Date(NOW_MS).toISOString(), observedGeneration: 1 };

async function round(world: World, at: { readonly nowMs: number; readonly monotonicMs: number }): Promise<number> {
  for (const volume of VOLUMES) {
    const [layout] = [world.caches.layouts.store.get(handleOf(volume))];
    const capacityBytes = Number.parseInt(layout?.status?.members?.[0]?.size ?? "", 10) * GIB;
    const availableBytes = Math.round(capacityBytes * (1 - (world.used[volume] ?? 0)));
    const figures = { capacityBytes, availableBytes, inodesTotal: 0, inodesUsed: 0 };
    world.registry.scraped(handleOf(volume), { ...figures, ageMs: 1000, sampledAtMs: at.nowMs - 1000 }, ROUND_MS, at);
  }
  await world.book.settled();
  const before = VOLUMES.map((volume) => world.registry.get(handleOf(volume)).standing);
  await world.engine.evaluateAll(VOLUMES.map(handleOf));
  await world.engine.settled();
  return VOLUMES.filter((volume) => {
    const { standing } = world.registry.get(handleOf(volume));
    return standing !== undefined && standing === before[volume];
  }).length;
}

const change = fc.record({
  what: fc.constantFrom("nothing happens", ...Object.keys(CHANGES)),
  volume: fc.constantFrom(...VOLUMES),
  size: fc.double({ min: 0, max: 0.999, noNaN: true }),
  afterMs: fc.constantFrom(ROUND_MS, ROUND_MS, ROUND_MS, 60_000, 700_000, 43_200_000),
  setMs: fc.constantFrom(0, 0, 0, 0, -3_600_000, 7_200_000),
});

/** At rest for some rounds: those of even numbers under rules that read windows, the others under rules that read none. */
async function aFleetAtRest() {
  const at = { nowMs: NOW_MS, monotonicMs: NOW_MS };
  const world = aWorld(at);
  for (const volume of VOLUMES) CHANGES["its policy is another"]?.(world, volume, volume % 2 === 0 ? 0 : 0.2, at.nowMs);
  const pass = async (afterMs = ROUND_MS): Promise<number> => {
    at.nowMs += afterMs;
    at.monotonicMs += afterMs;
    return round(world, at);
  };
  for (let i = 0; i < 12; i += 1) await pass();
  return { world, at, pass };
}

describe("a decision that stands", () => {
  property(
    "is left out of a round without a difference in what is written, or in what agents are asked to watch",
    { runs: 20, reaches: { "a decision stood": 0.8, "something was written": 0.8 } },
    [fc.array(change, { minLength: 20, maxLength: 40 })],
    async (reach, changes) => {
      const at = { nowMs: NOW_MS, monotonicMs: NOW_MS };
      const [quick, thorough] = [aWorld(at), aWorld(at)];
      for (const world of [quick, thorough]) CHANGES["its policy is another"]?.(world, 0, 0, at.nowMs);
      for (const { what, volume, size, afterMs, setMs } of changes) {
        at.monotonicMs += afterMs;
        at.nowMs += afterMs + setMs;
        for (const world of [quick, thorough]) CHANGES[what]?.(world, volume, size, at.nowMs);
        for (const one of VOLUMES) thorough.registry.get(handleOf(one)).standing = undefined;
        if ((await round(quick, at)) > 0) reach("a decision stood");
        await round(thorough, at);
        expect([what, quick.said.splice(0).sort()]).toEqual([what, thorough.said.splice(0).sort()]);
        if (quick.registry.get(handleOf(volume)).reported !== undefined) reach("something was written");
      }
      quick.book.stop();
      thorough.book.stop();
    },
  );

  it("stands while nothing changes, and for ten minutes at most", async () => {
    const { world, pass } = await aFleetAtRest();
    expect(await pass()).toBe(VOLUMES.length);
    const began = VOLUMES.map((volume) => world.registry.get(handleOf(volume)).standing);
    for (let ms = 0; ms < 600_000; ms += ROUND_MS) await pass();
    const later = VOLUMES.map((volume) => world.registry.get(handleOf(volume)).standing);
    expect(later.some((standing, index) => standing === began[index])).toBe(false);
    world.book.stop();
  });

  it.each([
    ["it fills", 0.6],
    ["its claim is relabelled", 0],
    ["its request is raised", 1],
    ["its class gets a maximum", 0],
    ["its namespace gets a quota", 0.2],
    ["its policy is another", 0.2],
    ["its policy is deleted", 0],
    ["a ceiling follows its namespace's labels", 0],
    ["it is unmounted, or mounted", 0.6],
    ["it is larger", 1],
    ["its node makes it read-only", 0],
    ["another leads", 0],
    ["Prometheus is silent, or answers", 0],
    ["its agent is asked to be guided afresh", 0],
    ["an earlier engine has shrunk it", 0.5],
  ])("stands no more when %s", async (what, size) => {
    const { world, at, pass } = await aFleetAtRest();
    const before = world.registry.get(handleOf(1)).standing;
    CHANGES[what]?.(world, 1, size, at.nowMs);
    await pass();
    expect(before).toBeDefined();
    expect(world.registry.get(handleOf(1)).standing).not.toBe(before);
    world.book.stop();
  });

  it("stands when a policy of another namespace is new, edited or deleted", async () => {
    const { world, at, pass } = await aFleetAtRest();
    const before = world.registry.get(handleOf(1)).standing;
    expect(before).toBeDefined();
    const other = (size: number) => CHANGES["its policy is another"]?.(world, 0, size, at.nowMs);
    for (const change of [() => other(0.2), () => other(0), () => CHANGES["its policy is deleted"]?.(world, 0, 0, 0)]) {
      change();
      await pass();
      expect(world.registry.get(handleOf(1)).standing).toBe(before);
    }
    world.book.stop();
  });

  it("stands under ceilings that are the same, and no more under others", async () => {
    const { world, pass } = await aFleetAtRest();
    const guard = (more: object, max: string): void => {
      const ceilings = { max, storageClassNames: ["tidemark-loop"] };
      const { metadata, ...policy } = aClusterPolicy({ rules: [], ceilings, ...more });
      world.process.generation += 1;
      const { generation } = world.process;
      world.caches.clusterPolicies.put({ ...policy, metadata: { ...metadata, generation } });
    };
    guard({}, "20Gi");
    for (let i = 0; i < 2; i += 1) await pass();
    const before = world.registry.get(handleOf(1)).standing;
    expect(before).toBeDefined();
    guard({ priority: 7 }, "20Gi");
    await pass();
    expect(world.registry.get(handleOf(1)).standing).toBe(before);
    guard({ priority: 7 }, "19Gi");
    await pass();
    expect(world.registry.get(handleOf(1)).standing).not.toBe(before);
    world.book.stop();
  });

  it("stands no more when its reading is stale, or when the clock was set", async () => {
    const { world, at } = await aFleetAtRest();
    const state = world.registry.get(handleOf(1));
    const standsAt = (afterMs: number, setMs = 0): boolean => {
      const [nowMs, monotonicMs] = [at.nowMs + afterMs + setMs, at.monotonicMs + afterMs];
      return state.standing?.holds(state, { nowMs, monotonicMs }, world.promises) === true;
    };
    expect([standsAt(1000), standsAt(1000, 500), standsAt(1000, 3_600_000)]).toEqual([true, true, false]);
    expect([standsAt(3 * ROUND_MS - 1000), standsAt(3 * ROUND_MS - 999)]).toEqual([true, false]);
    world.book.stop();
  });

  it("stands no more when a peak leaves a window that its policy reads", async () => {
    const { world, at, pass } = await aFleetAtRest();
    world.used[2] = 0.7;
    await pass();
    const filledMs = at.monotonicMs - 1000;
    world.used[2] = 0.5;
    await pass();
    const decidedAfterMs: number[] = [];
    for (let i = 0; i < 10; i += 1) {
      const before = world.registry.get(handleOf(2)).standing;
      await pass();
      if (world.registry.get(handleOf(2)).standing !== before) decidedAfterMs.push(at.monotonicMs - filledMs);
    }
    expect(decidedAfterMs).toEqual([121_000]);
    world.book.stop();
  });
});
