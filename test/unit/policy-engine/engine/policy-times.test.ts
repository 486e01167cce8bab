// What policies take of the deciding thread in sum, on clocks that the test turns: no load of the machine changes it.
import { describe, expect, it } from "@jest/globals";
import { BatchTimes, createPolicyLoads } from "../../../../src/policy-engine/engine/policy-times.ts";
import { compilePolicy } from "../../../../src/policy-engine/policies/compile-policy.ts";
import type { CompiledPolicy } from "../../../../src/policy-engine/policies/compiled-policy.ts";
import { aClusterPolicy, aVolumePolicy } from "../../../builders/policy.ts";

const ROUND_MS = 15_000;
const own = (name: string, namespace = "shop") => compilePolicy(aVolumePolicy({}, { name, namespace }));

/** What a decision takes: on a core, and with what it waits. */
interface Costs {
  readonly cpuMs: number;
  readonly wallMs?: number;
}

function aThread() {
  const spent = { cpuMs: 0, wallMs: 0 };
  const loads = createPolicyLoads({ cpuMs: () => spent.cpuMs, wallMs: () => spent.wallMs });
  const decide = (policy: CompiledPolicy, volumes: number, { cpuMs, wallMs = cpuMs }: Costs, atMs = 0): void => {
    for (let i = 0; i < volumes; i += 1)
      loads.measure(policy, atMs, () => {
        spent.cpuMs += cpuMs;
        spent.wallMs += wallMs;
      });
  };
  const named = (atMs = 0): string[] => [...loads.takeExceeded(atMs).keys()].map(({ key }) => key).sort();
  return { loads, decide, named };
}

/** What is named in some minutes of rounds, by the keys of the policies. */
function namedInRounds(policy: CompiledPolicy, volumes: number, costs: Costs, rounds = 12): string[] {
  const { decide, named } = aThread();
  return Array.from({ length: rounds }, (_, round) => round * ROUND_MS).flatMap((atMs) => {
    decide(policy, volumes, costs, atMs);
    return named(atMs);
  });
}

describe("a policy that takes too much in sum", () => {
  it("is named where 300 volumes of a namespace take 4 ms each, with what it spent", () => {
    expect(namedInRounds(own("heavy"), 300, { cpuMs: 4.1 }, 1)).toEqual(["shop/heavy"]);
    expect(namedInRounds(own("heavy"), 100, { cpuMs: 4.1 }, 3)).toEqual(["shop/heavy"]);
    const { loads, decide } = aThread();
    const policy = own("heavy");
    decide(policy, 401, { cpuMs: 4 });
    expect(loads.takeExceeded(0).get(policy)).toEqual({ count: 400, ms: 1600 });
  });

  it("is none over 100,000 volumes whose decisions are short, though they take a fifth of a core", () => {
    expect(namedInRounds(compilePolicy(aClusterPolicy()), 100_000, { cpuMs: 0.03 }, 6)).toEqual([]);
    expect(namedInRounds(own("large"), 20_000, { cpuMs: 0.9 }, 6)).toEqual([]);
  });

  it("is none whose decisions wait for a core, however long", () => {
    expect(namedInRounds(own("waits"), 5000, { cpuMs: 0.03, wallMs: 40 })).toEqual([]);
  });

  it("is none whose decisions are heavy and few", () => {
    expect(namedInRounds(own("few"), 40, { cpuMs: 7 })).toEqual([]);
  });

  it("is none for a few long decisions among many short ones, as where memory is collected", () => {
    const { decide, named } = aThread();
    const policy = own("collected");
    for (let i = 0; i < 100; i += 1) {
      decide(policy, 1, { cpuMs: 30 });
      decide(policy, 500, { cpuMs: 0.03 });
    }
    expect(named()).toEqual([]);
  });

  it("answers with all others of its namespace, the heaviest first, and for no other namespace", () => {
    const { decide, named } = aThread();
    const policies = Array.from({ length: 10 }, (_, index) => own(`p${index}`));
    for (const policy of policies) decide(policy, 31, { cpuMs: 4 });
    decide(policies[3] ?? own("none"), 70, { cpuMs: 4 });
    decide(own("other", "pay"), 280, { cpuMs: 4 });
    for (let index = 0; index < 10; index += 1)
      decide(compilePolicy(aClusterPolicy({}, { name: `c${index}` })), 100, { cpuMs: 4 });
    expect(named()).toEqual(["shop/p3"]);
  });

  it("is named once, and soon again where it is edited and as heavy, but not where the edit has made it light", () => {
    const { decide, named } = aThread();
    decide(own("heavy"), 400, { cpuMs: 4 });
    expect([named(), named()]).toEqual([["shop/heavy"], []]);
    decide(own("heavy"), 31, { cpuMs: 4 }, 1000);
    expect(named(1000)).toEqual(["shop/heavy"]);
    decide(own("heavy"), 500, { cpuMs: 0.03 }, 2000);
    expect(named(2000)).toEqual([]);
  });

  it("is the one that decides, where others of its namespace that were heavy are gone", () => {
    const { decide, named } = aThread();
    const inTurn = ["a", "b", "c"].flatMap((name, index) => {
      decide(own(name), 200 - index, { cpuMs: 4 }, index * ROUND_MS);
      return named(index * ROUND_MS);
    });
    expect(inTurn).toEqual(["shop/b", "shop/c"]);
  });

  it("is looked for after each 100 ms of decisions that are long", () => {
    const { loads, decide, named } = aThread();
    decide(own("light"), 100_000, { cpuMs: 0.03 });
    expect(loads.isDue()).toBe(false);
    decide(own("heavy"), 25, { cpuMs: 4 });
    expect(loads.isDue()).toBe(false);
    decide(own("heavy"), 2, { cpuMs: 4 });
    expect([loads.isDue(), named(), loads.isDue()]).toEqual([true, [], false]);
  });
});

describe("the times of a batch", () => {
  it("count for an attempt that was ended what was decided in it, and not what waited in one that has returned", () => {
    const times = new BatchTimes();
    times.begin(own("waits"));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
    times.end();
    times.returned();
    times.interrupted({ cpuMs: 10, wallMs: 10 });
    expect(times.takeSlowest(0)).toBeUndefined();
  });
});
