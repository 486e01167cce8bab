import { describe, expect, it } from "@jest/globals";
import type { Filesystem } from "../../../../src/api/filesystem.ts";
import type { FilesystemLayout } from "../../../../src/api/filesystem-layout.ts";
import { createStore } from "../../../../src/kube/cache/store.ts";
import type { KubeObject } from "../../../../src/kube/object.ts";
import type { PersistentVolumeClaim } from "../../../../src/kube/resources.ts";
import { createDecideBatch } from "../../../../src/policy-engine/engine/decide-batch.ts";
import type { World } from "../../../../src/policy-engine/gather/gather-facts.ts";
import type { PolicyBook } from "../../../../src/policy-engine/gather/policy-book.ts";
import { createVolumeRegistry } from "../../../../src/policy-engine/gather/volume-registry.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/index.ts";
import { compilePolicy } from "../../../../src/policy-engine/policies/compile-policy.ts";
import type { CompiledPolicy, PolicyProblem } from "../../../../src/policy-engine/policies/compiled-policy.ts";
import { GIB, MIB } from "../../../../src/units/quantity.ts";

const NOW_MS = Date.parse("2026-11-20T12:00:00Z");

function storeOf<T extends KubeObject>(objects: readonly T[]) {
  const store = createStore<T>({});
  for (const object of objects) store.put(object);
  return { store };
}

/** Volumes of 1 GiB, 90% used, by the names of their claims. */
function worldOf(names: readonly string[]): World {
  const claim = (name: string): PersistentVolumeClaim => ({
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { namespace: "default", name, uid: name, creationTimestamp: "2026-11-01T00:00:00Z" },
    spec: { resources: { requests: { storage: "10Gi" } } },
  });
  const filesystem = (name: string): Filesystem => ({
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "Filesystem",
    metadata: { namespace: "default", name, uid: `fs ${name}` },
    spec: {},
  });
  const layout = (name: string): FilesystemLayout => ({
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "FilesystemLayout",
    metadata: { name, uid: `layout ${name}` },
    spec: { claimRef: { namespace: "default", name, uid: name }, backend: "loop", fsType: "btrfs" },
    status: { members: [{ name: "m0", size: "1Gi", state: "Present" }] },
  });
  return {
    caches: {
      claims: storeOf(names.map(claim)),
      filesystems: storeOf(names.map(filesystem)),
      layouts: storeOf(names.map(layout)),
      storageClasses: storeOf([]),
      quotas: { store: { byIndex: () => [] } },
    } as unknown as World["caches"],
    promises: NOTHING_PROMISED,
    metricsStale: () => false,
  };
}

const NOTHING_PROMISED: World["promises"] = {
  othersOver: () => ({ allBytes: 0, classBytes: 0 }),
  othersBytes: () => 0,
  grantShare: () => Number.POSITIVE_INFINITY,
  begin: () => {},
  extending: () => {},
  wishing: () => {},
  granting: () => {},
};

function policy(name: string): CompiledPolicy {
  return compilePolicy({
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "VolumePolicy",
    metadata: { namespace: "default", name },
    spec: {
      limits: { min: "1Gi", max: "10Gi", minAvailable: "16Mi" },
      rules: [{ name: "extend", action: "Extend", when: "volume.usedRatio >= 0.8", targetUsed: "60%" }],
    },
  });
}

/** A policy whose rule got past every static limit and never ends. */
function endless(name: string): CompiledPolicy {
  const honest = policy(name);
  const [rule] = honest.rules;
  if (rule === undefined) throw new Error("no rule");
  const evaluate = (): never => {
    for (;;);
  };
  return { ...honest, rules: [{ ...rule, when: { ...rule.when, evaluate } }] };
}

function bookOf(byClaim: Map<string, CompiledPolicy>, problems: PolicyProblem[]): PolicyBook {
  return {
    forClaim: ({ name }) => ({ policy: byClaim.get(name), conflicts: [], ceilings: NO_CEILINGS }),
    entries: () => [],
    invalidate: (compiled, problem) => {
      problems.push(problem);
      for (const [name, held] of byClaim)
        if (held === compiled) byClaim.set(name, { ...compiled, rules: [], problems: [problem] });
    },
  };
}

describe("a batch of decisions", () => {
  it("goes on without a policy whose rules do not end, and tells its author", () => {
    const names = ["first", "trapped", "last"];
    const problems: PolicyProblem[] = [];
    const book = bookOf(
      new Map([
        ["first", policy("honest")],
        ["trapped", endless("endless")],
        ["last", policy("honest")],
      ]),
      problems,
    );
    const registry = createVolumeRegistry();
    for (const name of names)
      registry.scraped(
        name,
        { scrapedAtMs: NOW_MS, ageMs: 0, capacityBytes: GIB, availableBytes: 100 * MIB, inodesTotal: 0, inodesUsed: 0 },
        1000,
        { nowMs: NOW_MS, monotonicMs: NOW_MS },
      );
    const bugs: unknown[] = [];
    const decideBatch = createDecideBatch(worldOf(names), book, (_handle, error) => bugs.push(error));
    const decided = decideBatch(
      names.map((name) => registry.get(name)),
      { nowMs: NOW_MS, monotonicMs: NOW_MS },
    );
    expect(decided.map(({ plan }) => `${plan.kind} ${plan.reason}`)).toEqual([
      "extend RuleFired",
      "hold PolicyInvalid",
      "extend RuleFired",
    ]);
    expect(problems.map(({ field }) => field)).toEqual(["spec.rules"]);
    expect(bugs).toEqual([]);
  });
});
