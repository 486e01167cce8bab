import { describe, expect, it } from "@jest/globals";
import type { Filesystem } from "../../../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import type { PersistentVolumeClaim } from "../../../../src/contracts/kubernetes/resources.ts";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { createDecideBatch, type DecidingWorld } from "../../../../src/policy-engine/engine/decide-batch.ts";
import { threadCpuMs } from "../../../../src/policy-engine/engine/own-limits.ts";
import type { ThreadClocks } from "../../../../src/policy-engine/engine/policy-times.ts";
import type { PolicyBook } from "../../../../src/policy-engine/gather/policy-book.ts";
import { createChangeRates } from "../../../../src/policy-engine/gather/rates/change-rates.ts";
import { createVolumeRegistry } from "../../../../src/policy-engine/gather/volume-registry.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/index.ts";
import { compilePolicy } from "../../../../src/policy-engine/policies/compile-policy.ts";
import type { CompiledPolicy, PolicyProblem } from "../../../../src/policy-engine/policies/compiled-policy.ts";
import { buildClaim } from "../../../builders/claim.ts";
import { engineCaches } from "../../../fakes/engine-caches.ts";

const NOW_MS = Date.parse("2026-11-20T12:00:00Z");

/** Volumes of 1 GiB, 90% used, by the names of their claims. */
function worldOf(names: readonly string[], promises = NOTHING_PROMISED): DecidingWorld {
  const claim = (name: string): PersistentVolumeClaim => {
    const { metadata, ...made } = buildClaim({ name });
    return { ...made, metadata: { ...metadata, uid: name, creationTimestamp: "2026-11-01T00:00:00Z" } };
  };
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
  const caches = engineCaches();
  for (const name of names) {
    caches.claims.put(claim(name));
    caches.filesystems.put(filesystem(name));
    caches.layouts.put(layout(name));
  }
  const rates = createChangeRates(caches, { nowMs: () => NOW_MS, monotonicMs: () => NOW_MS });
  return {
    caches,
    promises,
    rates,
    evaluationIntervalMs: 15_000,
    approvals: { forClaim: () => [] },
    metricsStale: () => false,
  };
}

const NOTHING_PROMISED: DecidingWorld["promises"] = {
  entryOf: () => undefined,
  othersOver: () => ({ allBytes: 0, classBytes: 0 }),
  othersBytes: () => 0,
  grantShare: () => Number.POSITIVE_INFINITY,
  begin: () => {},
  extending: () => {},
  requesting: () => {},
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

/** The policy with something that is done each time its rule is asked. */
function doing(name: string, before: () => void): CompiledPolicy {
  const honest = policy(name);
  const [rule] = honest.rules;
  if (rule === undefined) throw new Error("no rule");
  const evaluate: typeof rule.when.evaluate = (scope) => {
    before();
    return rule.when.evaluate(scope);
  };
  return { ...honest, rules: [{ ...rule, when: { ...rule.when, evaluate } }] };
}

/** A policy whose rule got past every static limit and never ends. */
function endless(name: string): CompiledPolicy {
  return doing(name, () => {
    for (;;);
  });
}

/** On a core, for so long. */
function compute(ms: number): void {
  for (const sinceMs = threadCpuMs(); threadCpuMs() - sinceMs < ms; );
}

/** As a throttled container does: on no core. */
function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
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

const policyOr = (trapped: readonly string[]) => (name: string) =>
  trapped.includes(name) ? endless(name) : policy(name);

/** Volumes that have been measured, in a batch whose ledger is written down: one of an honest policy, of an endless one, of an honest one. */
function batchOf(
  names: readonly string[],
  trapped: readonly string[],
  make = policyOr(trapped),
  limitMs?: number,
  clocks?: ThreadClocks,
) {
  const problems: PolicyProblem[] = [];
  const bugs: unknown[] = [];
  const ledger: string[] = [];
  const book = bookOf(new Map(names.map((name) => [name, make(name)])), problems);
  const registry = createVolumeRegistry();
  for (const name of names)
    registry.scraped(
      name,
      { sampledAtMs: NOW_MS, ageMs: 0, capacityBytes: GIB, availableBytes: 100 * MIB, inodesTotal: 0, inodesUsed: 0 },
      1000,
      { nowMs: NOW_MS, monotonicMs: NOW_MS },
    );
  const promises: DecidingWorld["promises"] = {
    ...NOTHING_PROMISED,
    begin: (handle) => ledger.push(`begin ${handle}`),
    extending: (handle) => ledger.push(`extending ${handle}`),
    requesting: (handle) => ledger.push(`requesting ${handle}`),
  };
  const batch = createDecideBatch(
    worldOf(names, promises),
    book,
    (_handle, error) => bugs.push(error),
    limitMs,
    clocks,
  );
  const at = { nowMs: NOW_MS, monotonicMs: NOW_MS };
  return { batch, at, states: names.map((name) => registry.get(name)), problems, bugs, ledger };
}

describe("a batch of decisions", () => {
  it("goes on without a policy whose rules do not end, and tells its author", () => {
    const { batch, at, states, problems, bugs } = batchOf(["first", "trapped", "last"], ["trapped"]);
    const decided = batch.decide(states, at);
    expect(decided.map(({ plan }) => `${plan.kind} ${plan.reason}`)).toEqual([
      "extend RuleFired",
      "hold PolicyInvalid",
      "extend RuleFired",
    ]);
    expect(problems.map(({ field }) => field)).toEqual(["spec.rules"]);
    expect(bugs).toEqual([]);
  });

  it("changes the ledger once for each volume, however often it was ended on the way", () => {
    const { batch, at, states, ledger } = batchOf(["first", "trapped", "last"], ["trapped"]);
    batch.decide(states, at);
    expect(ledger.filter((line) => !line.startsWith("requesting"))).toEqual([
      ...["begin first", "begin trapped", "begin last"],
      ...["extending first", "extending last"],
    ]);
    expect(new Set(ledger).size).toBe(ledger.length);
  });

  it("leaves the ledger as it is where one volume is only looked at", () => {
    const { batch, at, states, ledger } = batchOf(["first"], []);
    const [state] = states;
    expect(state && batch.look(state, at)?.plan.kind).toBe("extend");
    expect(ledger).toEqual([]);
  });

  it("names no policy where its container is throttled, however often its time ends on the way", () => {
    const names = Array.from({ length: 8 }, (_, index) => `v${index}`);
    const stood = new Set<string>();
    // Asked several times for one decision: it stands still once.
    const throttled = (name: string) =>
      doing(name, () => {
        if (stood.has(name)) return;
        stood.add(name);
        compute(8);
        standStill(190);
      });
    const { batch, at, states, problems } = batchOf(names, [], throttled, 200);
    expect(new Set(batch.decide(states, at).map(({ plan }) => plan.kind))).toEqual(new Set(["extend"]));
    expect(problems).toEqual([]);
  });

  it("names a policy whose decisions spend over 10 ms on a core, three times in a row, and decides with what was valid", () => {
    const { batch, at, states, problems } = batchOf(["quick", "slow"], [], (name) =>
      name === "slow" ? doing(name, () => compute(11)) : policy(name),
    );
    const reasons = [1, 2, 3, 4].map(() =>
      batch
        .decide(states, at)
        .map(({ plan }) => plan.reason)
        .join(" "),
    );
    expect(reasons).toEqual([...Array.from({ length: 3 }, () => "RuleFired RuleFired"), "RuleFired PolicyInvalid"]);
    expect(problems).toHaveLength(1);
    expect(problems[0]?.message).toMatch(/^evaluating them took \d+ ms of CPU for one volume, over 10 ms$/);
  });

  it("goes on without a policy whose decisions spend some ms each, once they are over 1.2 s, on clocks that the test turns", () => {
    let spentMs = 0;
    const clocks = { wallMs: () => spentMs, cpuMs: () => spentMs };
    const heavy = doing("heavy", () => {
      spentMs += 3;
    });
    const names = Array.from({ length: 450 }, (_, index) => `v${index}`);
    const make = (name: string) => (name === "v0" ? policy(name) : heavy);
    const { batch, at, states, problems } = batchOf(names, [], make, undefined, clocks);
    const reasons = batch.decide(states, at).map(({ plan }) => plan.reason);
    expect(problems.map(({ message }) => message)).toEqual([
      expect.stringMatching(/^evaluating them took 12\d\d ms of CPU in a minute, \d\.0 ms for a volume on average$/),
    ]);
    expect(reasons).toHaveLength(names.length);
    expect([reasons[0], reasons[1], reasons.at(-1)]).toEqual(["RuleFired", "RuleFired", "PolicyInvalid"]);
    expect(spentMs).toBeLessThan(1400);
  });

  it("names no policy whose decisions only wait for a core", () => {
    const { batch, at, states, problems } = batchOf(["waits"], [], (name) => doing(name, () => standStill(15)));
    for (let round = 0; round < 5; round += 1) batch.decide(states, at);
    expect(problems).toEqual([]);
  });
});
