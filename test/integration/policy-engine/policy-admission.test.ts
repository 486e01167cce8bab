import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { parse } from "yaml";
import { API_VERSION } from "../../../src/api/names.ts";
import {
  CLUSTER_VOLUME_POLICIES,
  type ClusterVolumePolicy,
  VOLUME_POLICIES,
  type VolumePolicy,
} from "../../../src/api/volume-policy.ts";
import type { Resource } from "../../../src/kube/object.ts";
import { type Cluster, startCluster } from "./engine-under-test.ts";

const RULE = { name: "extend-at-80", action: "Extend", when: "volume.usedRatio >= 0.8", targetUsed: "60%" };
const LIMITS = { max: "200Gi" };

describe("the API server, asked to keep a policy", () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await startCluster();
  });
  afterAll(() => cluster.stop());

  const apply = (spec: object, kind: "VolumePolicy" | "ClusterVolumePolicy" = "VolumePolicy") => {
    const resource: Resource<VolumePolicy | ClusterVolumePolicy> =
      kind === "VolumePolicy" ? VOLUME_POLICIES : CLUSTER_VOLUME_POLICIES;
    return cluster.client.apply(
      "test/policy",
      resource,
      {
        apiVersion: API_VERSION,
        kind,
        metadata: kind === "VolumePolicy" ? { namespace: "default", name: "tried" } : { name: "tried" },
        spec,
      },
      { fieldManager: "test", force: true },
    );
  };

  it.each([
    ["has a rule that extends but no limits.max", { rules: [RULE] }, "limits.max is required"],
    ["has a rule with two sizes", { limits: LIMITS, rules: [{ ...RULE, by: "25%" }] }, "exactly one of"],
    ["has a rule with no size", { limits: LIMITS, rules: [{ ...RULE, targetUsed: undefined }] }, "exactly one of"],
    ["has an action that does not exist", { limits: LIMITS, rules: [{ ...RULE, action: "Grow" }] }, "Grow"],
    ["has a percentage without its sign", { limits: LIMITS, rules: [{ ...RULE, targetUsed: "60" }] }, "targetUsed"],
    ["has a size that is none", { limits: { max: "much" }, rules: [RULE] }, "limits.max"],
    [
      "allows no change a day at all",
      { limits: LIMITS, rules: [RULE], behavior: { shrink: { maxPerDay: 0 } } },
      "maxPerDay",
    ],
    ["has two rules of one name", { limits: LIMITS, rules: [RULE, RULE] }, "extend-at-80"],
    ["has an empty condition", { limits: LIMITS, rules: [{ ...RULE, when: "" }] }, "when"],
  ])("refuses one that %s, and names the field", async (_case, spec, text) => {
    await expect(apply(spec)).rejects.toThrow(text);
  });

  it("refuses a field that does not exist, so that a typing error is not silently ignored", async () => {
    await expect(apply({ limits: LIMITS, rule: [RULE], rules: [RULE] })).rejects.toThrow("rule");
  });

  it("refuses a cluster policy that extends without a bound", async () => {
    await expect(apply({ rules: [RULE] }, "ClusterVolumePolicy")).rejects.toThrow("limits.max is required");
  });

  it("takes a cluster policy that only has ceilings", async () => {
    const policy = await apply({ ceilings: { max: "1Ti", modes: { shrink: "Recommend" } } }, "ClusterVolumePolicy");
    expect(policy.metadata.generation).toBe(1);
  });

  it.each(["extend-at-80-shrink-below-30", "demo-breathing"])("takes the ready-made policy %s", async (name) => {
    const { spec } = parse(readFileSync(`policies/${name}.yaml`, "utf8")) as { spec: object };
    await expect(apply(spec)).resolves.toMatchObject({ spec });
  });
});
