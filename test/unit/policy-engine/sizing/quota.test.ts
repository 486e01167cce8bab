// What a ResourceQuota leaves to one filesystem, and that all of a namespace stay within it whoever decides first.
import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { storageQuotas } from "../../../../src/policy-engine/gather/claim-facts.ts";
import { createNamespacePromises } from "../../../../src/policy-engine/gather/namespace-promises.ts";
import { type StorageQuota, tightestQuota } from "../../../../src/policy-engine/sizing/namespace-budget.ts";
import { buildClaim } from "../../../builders/claim.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { engineCaches } from "../../../fakes/engine-caches.ts";
import { property } from "../../../harness/property.ts";

const ALL = "requests.storage";
const FAST = "fast.storageclass.storage.k8s.io/requests.storage";
const SLOW = "slow.storageclass.storage.k8s.io/requests.storage";
const CLAIM = { storageClassName: "fast", requestBytes: 10 * GIB };
const NOTHING_OVER = { allBytes: 0, classBytes: 0 };
const quota = (hard: Record<string, number>, used: Record<string, number>, name = "team"): StorageQuota => {
  const bytes = (gib: Record<string, number>) => Object.fromEntries(Object.entries(gib).map(([k, v]) => [k, v * GIB]));
  return { name, hard: bytes(hard), used: bytes(used) };
};

describe("what a ResourceQuota leaves to a filesystem", () => {
  it.each<[string, number, StorageQuota[], typeof NOTHING_OVER]>([
    ["is its request and what nobody has requested", 40, [quota({ [ALL]: 50 }, { [ALL]: 20 })], NOTHING_OVER],
    ["is its request where all is requested", 10, [quota({ [ALL]: 20 }, { [ALL]: 20 })], NOTHING_OVER],
    ["is its request where more is requested than may be", 10, [quota({ [ALL]: 20 }, { [ALL]: 30 })], NOTHING_OVER],
    [
      "is less by what others are larger than they request",
      33,
      [quota({ [ALL]: 50 }, { [ALL]: 20 })],
      { allBytes: 7 * GIB, classBytes: 0 },
    ],
    [
      "is less by what others of its class are larger than they request",
      37,
      [quota({ [FAST]: 50 }, { [FAST]: 20 })],
      { allBytes: 7 * GIB, classBytes: 3 * GIB },
    ],
    ["is the least of several keys", 15, [quota({ [ALL]: 50, [FAST]: 25 }, { [ALL]: 20, [FAST]: 20 })], NOTHING_OVER],
    [
      "is the least of several quotas",
      12,
      [quota({ [ALL]: 50 }, { [ALL]: 20 }), quota({ [ALL]: 22 }, { [ALL]: 20 }, "tight")],
      NOTHING_OVER,
    ],
    ["is its request while nobody has counted", 10, [quota({ [ALL]: 50 }, {})], NOTHING_OVER],
    [
      "is its request while it is not known what others are",
      10,
      [quota({ [ALL]: 50 }, { [ALL]: 20 })],
      { allBytes: Number.NaN, classBytes: Number.NaN },
    ],
  ])("%s", (_name, gib, quotas, others) => {
    expect((tightestQuota(quotas, CLAIM, others)?.bytes ?? Number.NaN) / GIB).toBe(gib);
  });

  it("is not limited by a quota of another class, or of other things", () => {
    const others = [quota({ [SLOW]: 1 }, { [SLOW]: 1 }), quota({ "requests.cpu": 1 }, {})];
    expect(tightestQuota(others, CLAIM, NOTHING_OVER)).toBeUndefined();
  });
});

describe("the ResourceQuotas that limit storage", () => {
  const read = (spec: object, status: object = {}) => {
    const caches = engineCaches();
    caches.quotas.put({
      apiVersion: "v1",
      kind: "ResourceQuota",
      metadata: { namespace: "shop", name: "team" },
      spec,
      status,
    });
    return storageQuotas(caches, "shop");
  };
  it("are read with what is used", () => {
    const hard = { [ALL]: "10Gi", [FAST]: "1Gi", "limits.cpu": "3" };
    const used = { [ALL]: "4Gi", "limits.cpu": "1" };
    expect(read({ hard }, { used })).toEqual([
      { name: "team", hard: { [ALL]: 10 * GIB, [FAST]: GIB }, used: { [ALL]: 4 * GIB } },
    ]);
  });
  it("are those of the claim's namespace alone, whatever another one's say", () => {
    const caches = engineCaches();
    for (const [namespace, storage] of [
      ["shop", "10Gi"],
      ["office", "1Gi"],
    ] as const)
      caches.quotas.put({
        apiVersion: "v1",
        kind: "ResourceQuota",
        metadata: { namespace, name: "team" },
        spec: { hard: { [ALL]: storage } },
        status: {},
      });
    expect(storageQuotas(caches, "shop")).toEqual([{ name: "team", hard: { [ALL]: 10 * GIB }, used: {} }]);
    expect(storageQuotas(caches, "street")).toEqual([]);
  });
  it("are read also where they, or the claims, are no whole number of bytes, as the API server shows 1.1Ti and 0.1Gi", () => {
    const found = read({ hard: { [ALL]: "1209462790553600m" } }, { used: { [ALL]: "107374182400m" } });
    expect(found).toEqual([{ name: "team", hard: { [ALL]: 1_209_462_790_554 }, used: { [ALL]: 107_374_183 } }]);
  });
  it.each<[string, object]>([
    ["of other things", { hard: { "limits.cpu": "3" } }],
    ["of more than any volume can be", { hard: { [ALL]: "1Ei" } }],
    ["of some claims only", { hard: { [ALL]: "1Gi" }, scopes: ["NotTerminating"] }],
    ["of some claims only, by a selector", { hard: { [ALL]: "1Gi" }, scopeSelector: { matchExpressions: [] } }],
  ])("are none %s", (_what, spec) => {
    expect(read(spec)).toEqual([]);
  });
});

const UID = "0a1b2c3d-0000-4000-8000-0000000000";
const uidOf = (index: number): string => `${UID}${String(index).padStart(2, "0")}`;

/** Volumes of two classes, each with its request and its size in GiB; of one namespace, unless it is said of which each is. */
function namespaceOf(
  volumes: readonly (readonly [request: number, size: number, isFast: boolean])[],
  namespaces: readonly string[] = [],
) {
  const caches = engineCaches();
  const promises = createNamespacePromises(caches, { monotonicMs: () => 0 });
  volumes.forEach(([request, size, isFast], index) => {
    const namespace = namespaces[index] ?? "shop";
    const claim = buildClaim({ name: `data-${index}`, namespace, request: `${request}Gi` });
    const metadata = { ...claim.metadata, uid: uidOf(index) };
    // The layout is seen first: its claim's class comes after it.
    const layout = buildLayout(
      { claimRef: { namespace, name: `data-${index}`, uid: uidOf(index) } },
      { members: [{ name: "member-0", size: `${size}Gi`, state: "Present" }] },
    );
    caches.layouts.put({ ...layout, metadata: { name: `fs-${index}`, generation: 1 } });
    caches.claims.put({ ...claim, metadata, spec: { ...claim.spec, storageClassName: isFast ? "fast" : "slow" } });
    caches.layouts.put({ ...layout, metadata: { name: `fs-${index}`, generation: 2 } });
  });
  return promises;
}

describe("a namespace with a ResourceQuota", () => {
  it("has nothing taken of it by what another namespace's filesystems are larger than they request", () => {
    const promises = namespaceOf(
      [
        [1, 1, true],
        [1, 3, true],
        [1, 9, true],
      ],
      ["shop", "shop", "office"],
    );
    expect(promises.othersOver("fs-0")).toEqual({ allBytes: 2 * GIB, classBytes: 2 * GIB });
    expect(promises.othersOver("fs-2")).toEqual({ allBytes: 0, classBytes: 0 });
  });

  property(
    "never has more than that, or than it had, in whatever order its filesystems take all that they may",
    {
      runs: 300,
      reaches: { "a filesystem that grew": 0.25, "one that was over before": 0.1, "a quota of a class": 0.15 },
    },
    [
      fc.array(fc.tuple(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 12 }), fc.boolean()), {
        minLength: 1,
        maxLength: 6,
      }),
      fc.integer({ min: 0, max: 30 }),
      fc.boolean(),
      fc.array(fc.nat(5), { minLength: 1, maxLength: 12 }),
    ],
    (reach, volumes, spareGib, ofClass, order) => {
      const promises = namespaceOf(volumes);
      const sizes = volumes.map(([, size]) => size * GIB);
      const counted = (index: number): boolean => !ofClass || volumes[index]?.[2] === true;
      const sum = (of: (index: number) => number) =>
        volumes.reduce((total, _volume, index) => total + (counted(index) ? of(index) : 0), 0);
      const requested = sum((index) => (volumes[index]?.[0] ?? 0) * GIB);
      const held = () => sum((index) => Math.max((volumes[index]?.[0] ?? 0) * GIB, sizes[index] ?? 0));
      const key = ofClass ? FAST : ALL;
      const limit = requested + spareGib * GIB;
      const quotas = [{ name: "team", hard: { [key]: limit }, used: { [key]: requested } }];
      const most = Math.max(limit, held());
      if (held() > limit) reach("one that was over before");
      for (const index of order.filter((one) => one < volumes.length)) {
        const [request = 0, , isFast = false] = volumes[index] ?? [];
        const claim = { storageClassName: isFast ? "fast" : "slow", requestBytes: request * GIB };
        const bound = tightestQuota(quotas, claim, promises.othersOver(`fs-${index}`));
        if (bound === undefined) continue;
        if (ofClass) reach("a quota of a class");
        if (bound.bytes <= (sizes[index] ?? 0)) continue;
        if (bound.bytes > request * GIB) reach("a filesystem that grew");
        promises.extending(`fs-${index}`, bound.bytes);
        sizes[index] = bound.bytes;
        expect(held()).toBeLessThanOrEqual(most);
      }
    },
  );
});
