// Which policies of a namespace are compiled, in which order, and which are too many.
import { describe, expect, it } from "@jest/globals";
import type { VolumePolicySpec } from "../../../../src/contracts/kinds/volume-policy.ts";
import { type AnyPolicy, compilePolicy } from "../../../../src/policy-engine/policies/compile-policy.ts";
import { ScopePolicies } from "../../../../src/policy-engine/policies/scope-policies.ts";
import { aClusterPolicy, aVolumePolicy, EXTEND_AT_80 } from "../../../builders/policy.ts";

/** The hour says how old it is. */
function policyOf(name: string, hour: number, spec: Partial<VolumePolicySpec> = {}, generation = 1): AnyPolicy {
  const policy = aVolumePolicy(spec, { name, namespace: "team", creationTimestamp: `2026-01-01T${hour}:00:00Z` });
  return { ...policy, metadata: { ...policy.metadata, uid: `uid-of-${name}`, generation } };
}

/** So many characters of expressions, up to 32,768. */
function ofSize(chars: number): Partial<VolumePolicySpec> {
  const each = chars / 16;
  return {
    rules: [],
    variables: Array.from({ length: 16 }, (_, i) => ({ name: `v${i}`, expression: "1".padEnd(each) })),
  };
}

/** 9,000 ranges of characters, of 10,000 that one policy may hold. */
const WIDE = { rules: [{ ...EXTEND_AT_80, when: "volume.name.matches(r'\\pL{12}')" }] };

function holding(namespace: string | undefined, ...policies: AnyPolicy[]) {
  const scope = new ScopePolicies(namespace);
  const compiled: string[] = [];
  const settle = (): void => {
    while (
      scope.compileNext((object) => {
        compiled.push(object.metadata.name);
        return compilePolicy(object);
      })
    );
  };
  for (const policy of policies) scope.put(policy);
  return {
    scope,
    compiled,
    settle,
    only: () => {
      const [entry] = scope.entries();
      if (entry === undefined) throw new Error("no entry");
      return entry.compiled;
    },
    problems: () =>
      Object.fromEntries(
        [...scope.all()].map(({ object, compiled: { problems } }) => [
          object.metadata.name,
          problems.map(({ message }) => message).join(),
        ]),
      ),
  };
}

const full = (names: string) => [...names].map((name, index) => policyOf(name, 10, ofSize(32_768), index));

describe("the policies of a namespace", () => {
  it("are compiled one at a time, the oldest first, and by their UIDs where they are of one age", () => {
    const { compiled, settle } = holding("team", policyOf("c", 11), policyOf("b", 12), policyOf("a", 11));
    settle();
    expect(compiled).toEqual(["a", "c", "b"]);
  });

  it("win their volumes before they are compiled, hold them, and guard what they have available", () => {
    const { scope } = holding("team", policyOf("new", 10));
    expect([...scope.all()].map(({ compiled }) => compiled)).toEqual([
      expect.objectContaining({
        decides: true,
        rules: [],
        guardsMinAvailable: true,
        limits: expect.objectContaining({ maxBytes: 100 * 2 ** 30 }),
        problems: [{ field: "spec.rules", message: "the policy is not compiled yet" }],
      }),
    ]);
    expect([...scope.entries()]).toEqual([]);
  });

  it("are not compiled again for a status", () => {
    const { scope, compiled, settle } = holding("team", policyOf("a", 10));
    settle();
    expect(scope.put({ ...policyOf("a", 10), status: { matchedFilesystems: 1 } })).toBe(false);
    settle();
    expect(compiled).toEqual(["a"]);
    expect([...scope.entries()].map(({ object }) => object.status)).toEqual([{ matchedFilesystems: 1 }]);
  });

  it("go on as they were until what is new is compiled, but are suspended at once", () => {
    const { scope, settle } = holding("team", policyOf("a", 10));
    settle();
    scope.put(policyOf("a", 10, { rules: [], suspend: true }, 2));
    expect([...scope.all()].map(({ compiled }) => [compiled.rules.length, compiled.suspended])).toEqual([[2, true]]);
    settle();
    expect([...scope.all()].map(({ compiled }) => [compiled.rules.length, compiled.suspended])).toEqual([[0, true]]);
  });

  it("are forgotten with what they decided when one of the name is made anew", () => {
    const { scope, settle } = holding("team", policyOf("a", 10));
    settle();
    const other = policyOf("a", 11);
    scope.put({ ...other, metadata: { ...other.metadata, uid: "another" } });
    expect([...scope.entries()]).toEqual([]);
  });

  it("are refused from the one that goes over the namespace's budget of characters, the newest, and not even compiled", () => {
    const { compiled, settle, problems } = holding("team", ...full("abcdefghijklmnopqr"), policyOf("small", 11));
    settle();
    expect(compiled.join("")).toBe("abcdefghijklmnop");
    const refusal =
      "the policies of namespace team up to q have 557056 characters of expressions, over the limit of 524288: it and all newer ones are refused";
    expect(problems()).toMatchObject({ p: "", q: refusal, r: refusal, small: refusal });
  });

  it("are refused from the one whose patterns go over the budget, which alone is compiled to find out", () => {
    const wide = [..."abcdefghijklmno"].map((name) => policyOf(name, 10, WIDE));
    const { compiled, settle, problems } = holding("team", ...wide);
    settle();
    settle();
    expect(compiled.join("")).toBe("abcdefghijkl");
    expect(problems()).toMatchObject({
      k: "",
      l: expect.stringContaining("up to l have patterns with 108000 ranges of characters, over the limit of 100000"),
      m: expect.stringContaining("up to l have patterns"),
    });
  });

  it("guard what they have available although they are refused", () => {
    const { scope, settle } = holding("team", ...full("abcdefghijklmnopq"));
    settle();
    expect([...scope.all()].at(-1)?.compiled).toMatchObject({ decides: true, rules: [], guardsMinAvailable: true });
  });

  it("go on once older ones have made room", () => {
    const { scope, compiled, settle, problems } = holding("team", ...full("abcdefghijklmnopq"));
    settle();
    scope.remove(policyOf("a", 10));
    settle();
    expect(compiled.join("")).toBe("abcdefghijklmnopq");
    expect(Object.values(problems())).toEqual(Array.from({ length: 16 }, () => ""));
  });

  it("count also where they do not compile: that took the same time", () => {
    const broken = [..."abcdefghijklmnopq"].map((name) =>
      policyOf(name, 10, {
        rules: [],
        variables: ofSize(32_768).variables?.map((each) => ({ ...each, name: "twice" })),
      }),
    );
    const { compiled, settle } = holding("team", ...broken);
    settle();
    expect(compiled).toHaveLength(16);
  });

  const tooSlow = (times: number) => ({ field: "spec.rules", message: `too slow, ${times}` });

  it("stay invalid after what was found at run time until their author changes them", () => {
    const { scope, settle, problems, only } = holding("team", policyOf("a", 10));
    settle();
    expect(scope.invalidate(only(), tooSlow, 0)).toBe(true);
    settle();
    expect(problems()).toEqual({ a: "too slow, 1" });
    expect(only()).toMatchObject({ rules: [], formerRules: [{ name: "extend-at-80" }, { name: "shrink-below-30" }] });
    scope.put(policyOf("a", 10, {}, 2));
    settle();
    expect(problems()).toEqual({ a: "" });
  });

  it("decide as before when they are tried again, and each further time in a row counts until one goes well for an hour", () => {
    const { scope, settle, problems, only } = holding("team", policyOf("a", 10));
    settle();
    const compiled = only();
    const failAt = (ms: number): string | undefined => {
      expect(scope.invalidate(compiled, tooSlow, ms)).toBe(true);
      const said = problems()["a"];
      expect(scope.tryAgain(compiled, ms)).toBe(true);
      expect(problems()).toEqual({ a: "" });
      return said;
    };
    expect([failAt(0), failAt(60_000), failAt(3_659_999), failAt(7_260_000)]).toEqual([
      ...["too slow, 1", "too slow, 2", "too slow, 3"],
      "too slow, 1",
    ]);
    expect(only()).toBe(compiled);
  });

  it("are not tried again as they were once their author has changed them", () => {
    const { scope, settle, only } = holding("team", policyOf("a", 10));
    settle();
    const before = only();
    scope.invalidate(before, tooSlow, 0);
    scope.put(policyOf("a", 10, {}, 2));
    settle();
    expect(scope.tryAgain(before, 60_000)).toBe(false);
    expect(only()).not.toBe(before);
  });
});

describe("the policies of the cluster", () => {
  it("have no budget but each its own", () => {
    const policies = Array.from({ length: 20 }, (_, i) => aClusterPolicy(ofSize(32_768), { name: `p${i}` }));
    const { compiled, settle, problems } = holding(undefined, ...policies);
    settle();
    expect(compiled).toHaveLength(20);
    expect(new Set(Object.values(problems()))).toEqual(new Set([""]));
  });
});
