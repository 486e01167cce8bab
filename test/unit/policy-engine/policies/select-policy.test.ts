import { describe, expect, it } from "@jest/globals";
import type { ClusterVolumePolicy, VolumePolicy } from "../../../../src/contracts/kinds/volume-policy.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { compilePolicy } from "../../../../src/policy-engine/policies/compile-policy.ts";
import { compileCeilings, PolicySet } from "../../../../src/policy-engine/policies/select-policy.ts";
import { aClusterPolicy, aVolumePolicy } from "../../../builders/policy.ts";

const CLAIM = { namespace: "shop", labels: { tier: "cache" }, storageClassName: "fast" };
const NAMESPACE_LABELS = { team: "red" };

function selected(policies: readonly (VolumePolicy | ClusterVolumePolicy)[], claim = CLAIM) {
  const compiled = policies.map((policy) => compilePolicy(policy));
  const ceilings = policies.flatMap((policy, i) => {
    const own = compiled[i];
    return policy.kind === "ClusterVolumePolicy" && own !== undefined ? (compileCeilings(policy, own) ?? []) : [];
  });
  return new PolicySet(compiled, ceilings).select(claim, NAMESPACE_LABELS);
}
const winner = (...policies: (VolumePolicy | ClusterVolumePolicy)[]) => selected(policies).policy?.key;

const named = (name: string, more: object = {}, metadata: object = {}) => aVolumePolicy(more, { name, ...metadata });

describe("selecting a policy", () => {
  it("selects none where none matches", () => {
    expect(winner()).toBeUndefined();
    expect(winner(aVolumePolicy({}, { namespace: "pay" }))).toBeUndefined();
  });

  it("prefers any policy of the namespace to any of the cluster", () => {
    expect(winner(aClusterPolicy({ priority: 100 }), named("own"))).toBe("shop/own");
  });

  it("asks the selectors of many policies once for the labels of a claim, and again when something is new", () => {
    let asked = 0;
    const policies = Array.from({ length: 100 }, (_, i) => {
      const policy = compilePolicy(aVolumePolicy({ priority: -i, selector: { matchLabels: { app: `${i}` } } }));
      const matchLabels = { app: `${i}` };
      const selector = Object.defineProperty({}, "matchLabels", {
        get: () => {
          asked += 1;
          return matchLabels;
        },
      });
      return { ...policy, key: `shop/${i}`, selection: { ...policy.selection, selector } };
    });
    const set = new PolicySet(policies, []);
    const labels = { app: "99" };
    const ask = (claim: object = {}, namespaceLabels = NAMESPACE_LABELS) =>
      set.select({ namespace: "shop", storageClassName: "a", labels, ...claim }, namespaceLabels).policy?.key;
    expect([ask(), ask(), ask()]).toEqual(["shop/99", "shop/99", "shop/99"]);
    const once = asked;
    expect(ask({ storageClassName: "b" })).toBe("shop/99");
    expect(asked).toBe(2 * once);
    expect(ask({}, { ...NAMESPACE_LABELS })).toBe("shop/99");
    expect(ask({ labels: { app: "42" } })).toBe("shop/42");
    expect(asked).toBeGreaterThan(3 * once);
  });

  it("gives the answer that is known again where a later set says the same of the same labels, and asks that set once", () => {
    const own = compilePolicy(named("own"));
    const others = ["pay", "sell"].map((namespace) => compilePolicy(aVolumePolicy({}, { namespace })));
    const known = new PolicySet([own], []).select(CLAIM, NAMESPACE_LABELS);
    const later = new PolicySet([own, ...others], []);
    expect(later.again(known, CLAIM, NAMESPACE_LABELS)).toBe(known);
    later.select = () => {
      throw new Error("asked again");
    };
    expect(later.again(known, CLAIM, NAMESPACE_LABELS)).toBe(known);
    expect(() => later.again(known, { ...CLAIM, labels: { tier: "cache" } }, NAMESPACE_LABELS)).toThrow("asked again");
  });

  it("gives another answer where a later set has compiled the policy again, or has others that select the claim too", () => {
    const own = compilePolicy(named("own"));
    const known = new PolicySet([own], []).select(CLAIM, NAMESPACE_LABELS);
    const again = (...policies: (typeof own)[]) => new PolicySet(policies, []).again(known, CLAIM, NAMESPACE_LABELS);
    expect(again({ ...own })).not.toBe(known);
    expect(again(own, compilePolicy(named("z-rival"))).conflicts).toEqual(["shop/z-rival"]);
    expect(again().policy).toBeUndefined();
  });

  it("falls back to a cluster policy whose namespaceSelector matches", () => {
    expect(winner(aClusterPolicy({ namespaceSelector: { matchLabels: { team: "red" } } }))).toBe("cluster");
    expect(winner(aClusterPolicy({ namespaceSelector: { matchLabels: { team: "blue" } } }))).toBeUndefined();
  });

  it("takes the highest priority, then the oldest", () => {
    expect(winner(named("low", { priority: 1 }), named("high", { priority: 2 }))).toBe("shop/high");
    const younger = named("a-younger", {}, { creationTimestamp: "2026-02-01T00:00:00Z" });
    expect(winner(younger, named("older"))).toBe("shop/older");
  });

  it("names the policies of the same priority that select the claim too", () => {
    const { policy, conflicts } = selected([
      named("b"),
      named("a"),
      named("other", { selector: { matchLabels: { tier: "db" } } }),
      named("low", { priority: -1 }),
    ]);
    expect(policy?.key).toBe("shop/a");
    expect(conflicts).toEqual(["shop/b"]);
  });

  it("lets invalid and suspended policies win their volumes", () => {
    expect(winner(named("broken", { limits: {}, priority: 1 }), named("fine"))).toBe("shop/broken");
    expect(winner(named("asleep", { suspend: true, priority: 1 }), named("fine"))).toBe("shop/asleep");
  });

  it("lets a cluster policy that only carries ceilings decide nothing", () => {
    expect(winner(aClusterPolicy({ rules: undefined, ceilings: { max: "1Ti" } }))).toBeUndefined();
  });

  it("selects by storage class", () => {
    expect(winner(named("slow-only", { storageClassNames: ["slow"] }))).toBeUndefined();
    expect(winner(named("fast-only", { storageClassNames: ["fast"] }))).toBe("shop/fast-only");
  });

  const selectors: [string, object, boolean][] = [
    ["matchLabels that the claim has", { matchLabels: { tier: "cache" } }, true],
    ["matchLabels with another value", { matchLabels: { tier: "db" } }, false],
    ["In with the value", { matchExpressions: [{ key: "tier", operator: "In", values: ["db", "cache"] }] }, true],
    ["In without the label", { matchExpressions: [{ key: "zone", operator: "In", values: ["a"] }] }, false],
    ["NotIn with the value", { matchExpressions: [{ key: "tier", operator: "NotIn", values: ["cache"] }] }, false],
    ["NotIn without the label", { matchExpressions: [{ key: "zone", operator: "NotIn", values: ["a"] }] }, true],
    ["Exists with the label", { matchExpressions: [{ key: "tier", operator: "Exists" }] }, true],
    [
      "Exists for a name that every object has",
      { matchExpressions: [{ key: "constructor", operator: "Exists" }] },
      false,
    ],
    ["DoesNotExist without the label", { matchExpressions: [{ key: "zone", operator: "DoesNotExist" }] }, true],
    [
      "terms of which one fails",
      { matchLabels: { tier: "cache" }, matchExpressions: [{ key: "zone", operator: "Exists" }] },
      false,
    ],
  ];
  it.each(selectors)("reads a selector as Kubernetes does: %s", (_sentence, selector, matches) => {
    expect(winner(named("p", { selector })) !== undefined).toBe(matches);
  });
});

describe("ceilings", () => {
  const guard = (name: string, ceilings: NonNullable<ClusterVolumePolicy["spec"]["ceilings"]>, more: object = {}) =>
    aClusterPolicy({ rules: undefined, ceilings, ...more }, { name });

  it("are the strictest of all cluster policies that match, no matter which decides", () => {
    const { policy, ceilings } = selected([
      named("own"),
      guard("a", {
        max: "50Gi",
        modes: { shrink: "Recommend" },
        changesPerHourPerNamespace: 5,
        concurrentOperations: { perNode: 3, perCluster: 9 },
        driverModifications: [{ driver: "ebs.csi.aws.com", perDay: 4 }],
      }),
      guard("b", {
        max: "20Gi",
        changesPerHourPerNamespace: 20,
        concurrentOperations: { perCluster: 4 },
        driverModifications: [{ driver: "ebs.csi.aws.com", perDay: 2 }],
        bytesPerNamespace: "1Ti",
        modes: { shrink: "Enforce", extend: "Recommend" },
      }),
    ]);
    expect(policy?.key).toBe("shop/own");
    expect(ceilings).toMatchObject({
      maxBytes: { value: 20 * GIB, policy: "b" },
      namespaceBytes: { value: 1024 * GIB, policy: "b" },
      changesPerHour: { value: 5, policy: "a" },
      modificationsPerDay: new Map([["ebs.csi.aws.com", { value: 2, policy: "b" }]]),
      operations: { node: { value: 3, policy: "a" }, cluster: { value: 4, policy: "b" } },
      modes: { shrink: { value: "Recommend", policy: "a" }, extend: { value: "Recommend", policy: "b" } },
    });
  });

  it("take Recommend for stricter than Approve, and Approve for stricter than Enforce", () => {
    const modes = (...shrinks: ("Enforce" | "Approve" | "Recommend")[]) =>
      selected([named("own"), ...shrinks.map((shrink, index) => guard(`${index}`, { modes: { shrink } }))]).ceilings
        .modes.shrink?.value;
    expect(modes("Enforce", "Approve")).toBe("Approve");
    expect(modes("Approve", "Recommend", "Enforce")).toBe("Recommend");
  });

  it("leave claims alone that their policy does not match", () => {
    const { ceilings } = selected([
      guard("blue", { max: "1Gi" }, { namespaceSelector: { matchLabels: { team: "blue" } } }),
    ]);
    expect(ceilings.maxBytes).toBeUndefined();
  });

  it.each([{ max: 5 }, { max: "9000000Ti" }, { storageClassNames: "fast" }, "none"])(
    "allow nothing where they are %j",
    (ceilings) => {
      // eslint-disable-next-line no-restricted-syntax -- ceilings of a wrong shape are the case
      expect(selected([guard("a", ceilings as never)]).ceilings.maxBytes).toEqual({ value: 0, policy: "a" });
    },
  );

  it("allow a class only where each of them does", () => {
    const { ceilings } = selected([
      guard("a", { storageClassNames: ["fast", "slow"] }),
      guard("b", { storageClassNames: ["fast"] }),
    ]);
    expect(ceilings.storageClassNames.map(({ value }) => [...value])).toEqual([["fast", "slow"], ["fast"]]);
  });
});
