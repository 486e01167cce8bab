// When policies are reported, on timers that the test turns.
import { afterEach, beforeEach, expect, it, jest } from "@jest/globals";
import { policyStatus, type VolumePolicy } from "../../../../src/contracts/kinds/volume-policy.ts";
import type { PolicyBook } from "../../../../src/policy-engine/gather/policy-book.ts";
import { compilePolicy } from "../../../../src/policy-engine/policies/compile-policy.ts";
import { createPolicyReports, type PolicyReports } from "../../../../src/policy-engine/report/policy-reports.ts";
import { createRuleErrors, type RuleErrors } from "../../../../src/policy-engine/report/rule-errors.ts";
import { NOW_MS } from "../../../builders/facts.ts";
import { aVolumePolicy } from "../../../builders/policy.ts";
import { engineCaches } from "../../../fakes/engine-caches.ts";
import { createRecordingLog } from "../../../fakes/recording-log.ts";
import { servedClient } from "../../../fakes/served-client.ts";

let object: VolumePolicy;
let written: (string | undefined)[];
let walks: number;
let errors: RuleErrors;
let reports: PolicyReports;
let timeMs: number;

beforeEach(() => {
  jest.useFakeTimers();
  object = aVolumePolicy();
  written = [];
  walks = 0;
  timeMs = 0;
  const compiled = compilePolicy(object);
  const policies: PolicyBook = {
    forClaim: () => {
      throw new Error("there is no claim");
    },
    entries: () => [{ object, compiled }],
    invalidate: () => undefined,
  };
  const caches = engineCaches();
  const { list } = caches.layouts.store;
  caches.layouts.store.list = () => {
    walks += 1;
    return list();
  };
  errors = createRuleErrors(() => reports.rulesFailed());
  reports = createPolicyReports({
    client: servedClient({
      apply: async (_point, _resource, applied) => {
        object = { ...object, ...("status" in applied ? { status: policyStatus.parse(applied.status) } : {}) };
        written.push(object.status?.conditions?.find(({ type }) => type === "RuleError")?.message);
        return object;
      },
    }),
    events: { record: () => undefined, flush: async () => undefined },
    caches,
    policies,
    ruleErrors: errors,
    isLeader: () => true,
    clock: { nowMs: () => NOW_MS + timeMs, monotonicMs: () => timeMs },
    log: createRecordingLog().log,
  });
});
afterEach(async () => {
  await reports.stop();
  jest.useRealTimers();
});

async function pass(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 100) {
    timeMs += 100;
    await jest.advanceTimersByTimeAsync(100);
  }
}
const fail = (volume: number, error: string | undefined = "extend: no such key") =>
  errors.note({
    handle: `fs-${volume}`,
    claim: `shop/v${volume}`,
    policy: compilePolicy(object),
    error,
    isAsked: true,
  });
const recover = (volume: number) =>
  errors.note({
    handle: `fs-${volume}`,
    claim: `shop/v${volume}`,
    policy: compilePolicy(object),
    error: undefined,
    isAsked: true,
  });

it("a rule that fails is in the policy's status within 2 s, and gone from it once it answers", async () => {
  reports.soon();
  await pass(200);
  expect(written).toEqual([undefined]);
  fail(1);
  await pass(2000);
  expect(written.at(-1)).toMatch(/fails on 1 volume, such as shop\/v1: extend: no such key$/);
  recover(1);
  await pass(11_000);
  expect(written).toHaveLength(3);
  expect(written.at(-1)).toBeUndefined();
});

it("rules that fail on more and more volumes are one write in 10 s, the last of which has them all", async () => {
  reports.soon();
  await pass(200);
  for (let volume = 0; volume < 300; volume += 1) {
    fail(volume);
    await pass(100);
  }
  expect(written.length).toBeLessThanOrEqual(5);
  await pass(12_000);
  expect(written.at(-1)).toMatch(/fails on 300 volumes, such as shop\/v0/);
});

it("volumes are not all looked at again because a rule fails", async () => {
  reports.soon();
  await pass(200);
  const before = walks;
  fail(1);
  await pass(3000);
  expect(written).toHaveLength(2);
  expect(walks).toBe(before);
  reports.soon();
  await pass(200);
  expect(walks).toBeGreaterThan(before);
});

it("an author's change is reported at once, whatever waits for its time", async () => {
  reports.soon();
  await pass(200);
  fail(1);
  await pass(2000);
  fail(2);
  await pass(2000);
  const before = written.length;
  object = { ...object, status: undefined };
  reports.soon();
  await pass(200);
  expect(written).toHaveLength(before + 1);
});
