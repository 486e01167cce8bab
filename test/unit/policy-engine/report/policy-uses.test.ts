// What becomes of each policy over all volumes: which it decides, which it loses, and where they stop.
import { describe, expect, it } from "@jest/globals";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import type { PolicyBook } from "../../../../src/policy-engine/gather/policy-book.ts";
import { type AnyPolicy, compilePolicy } from "../../../../src/policy-engine/policies/compile-policy.ts";
import { compileCeilings, PolicySet } from "../../../../src/policy-engine/policies/select-policy.ts";
import { policyUses, unused } from "../../../../src/policy-engine/report/policy-uses.ts";
import { buildClaim } from "../../../builders/claim.ts";
import { aClusterPolicy, aVolumePolicy } from "../../../builders/policy.ts";
import { buildLayout } from "../../../builders/volume.ts";
import { engineCaches } from "../../../fakes/engine-caches.ts";

interface Claim {
  readonly name: string;
  readonly request?: string;
  readonly labels?: Record<string, string>;
}

async function usesOf(policies: readonly AnyPolicy[], claims: readonly Claim[], namespace = "shop") {
  const caches = engineCaches();
  for (const { name, request = "10Gi", labels = {} } of claims) {
    const claim = buildClaim({ name, namespace, request });
    const uid = `uid-of-${name}`;
    caches.claims.put({ ...claim, metadata: { ...claim.metadata, uid, labels } });
    const layout = buildLayout({ spec: { claimRef: { namespace, name, uid } } });
    caches.layouts.put({ ...layout, metadata: { ...layout.metadata, name: `fs-${name}` } });
  }
  const entries = policies.map((object) => ({ object, compiled: compilePolicy(object) }));
  const ceilings = entries.flatMap(({ object, compiled }) =>
    object.kind === "ClusterVolumePolicy" ? (compileCeilings(object, compiled) ?? []) : [],
  );
  const set = new PolicySet(
    entries.map(({ compiled }) => compiled),
    ceilings,
  );
  const book: PolicyBook = {
    forClaim: (claim) => set.select(claim, {}),
    entries: () => entries,
    invalidate: () => undefined,
  };
  let turns = 0;
  const uses = await policyUses(caches, book, async () => {
    turns += 1;
  });
  return { of: (key: string) => uses.get(key) ?? unused(), turns };
}

const named = (name: string, spec: object = {}, created = "2026-01-01T00:00:00Z") =>
  aVolumePolicy(spec, { name, creationTimestamp: created });
const CACHES = { selector: { matchLabels: { tier: "cache" } } };
const [A, B, CACHE] = [{ name: "a" }, { name: "b" }, { name: "c", labels: { tier: "cache" } }];

describe("a policy", () => {
  it("that decides no claim that it selects is shadowed by those that do, with how many each", async () => {
    const { of } = await usesOf(
      [named("all", { priority: 1 }), named("caches", CACHES), named("none", { storageClassNames: ["x"] })],
      [A, B, CACHE],
    );
    expect(of("shop/all")).toMatchObject({ matchedFilesystems: 3, shadowedBy: new Map() });
    expect(of("shop/caches").shadowedBy).toEqual(new Map([["shop/all", 1]]));
    expect(of("shop/none").shadowedBy).toEqual(new Map());
  });

  it("that decides one claim is not shadowed, whatever others decide", async () => {
    const { of } = await usesOf([named("caches", { priority: 1, ...CACHES }), named("rest")], [A, B, CACHE]);
    expect(of("shop/rest")).toMatchObject({ matchedFilesystems: 2, shadowedBy: new Map() });
  });

  it("of the cluster is shadowed by those of namespaces; one that only has ceilings is not", async () => {
    const { of } = await usesOf(
      [
        named("own"),
        aClusterPolicy({}, { name: "default" }),
        aClusterPolicy({ rules: undefined, ceilings: { max: "1Ti" } }, { name: "guard" }),
      ],
      [A, B],
    );
    expect(of("default").shadowedBy).toEqual(new Map([["shop/own", 2]]));
    expect(of("guard").shadowedBy).toEqual(new Map());
  });

  it("that loses claims to an older one of its priority loses them alone: that one loses nothing", async () => {
    const { of } = await usesOf([named("old"), named("young", CACHES, "2026-02-01T00:00:00Z")], [A, CACHE]);
    expect(of("shop/old")).toMatchObject({ conflicts: new Set(["shop/young"]), lostTo: new Map() });
    expect(of("shop/young")).toMatchObject({ conflicts: new Set(["shop/old"]), lostTo: new Map([["shop/old", 1]]) });
  });

  it("counts the claims that stop under limits.max at 10 times their request, and names the first", async () => {
    const policy = named("own", { limits: { max: "100Gi" } });
    const claims = [
      { name: "a", request: "10Gi" },
      { name: "b", request: "5Gi" },
      { name: "c", request: "2Gi" },
    ];
    const { of } = await usesOf([policy], claims);
    expect(of("shop/own").capped).toEqual({ volumes: 2, example: "shop/b", bytes: 50 * GIB });
    const guard = aClusterPolicy({ rules: undefined, ceilings: { max: "1Ti" } });
    expect((await usesOf([policy, guard], claims)).of("shop/own").capped).toBeUndefined();
    const ofCluster = aClusterPolicy({ limits: { max: "100Gi" } });
    expect((await usesOf([ofCluster], claims)).of("cluster").capped).toBeUndefined();
  });

  it("is looked at between decisions, a thousand volumes at a time", async () => {
    const claims = Array.from({ length: 2500 }, (_, i) => ({ name: `v${i}` }));
    const { of, turns } = await usesOf([named("own")], claims);
    expect(of("shop/own").matchedFilesystems).toBe(2500);
    expect(turns).toBe(2);
  });
});
