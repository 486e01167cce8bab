// What a person reads who checks policies in files before they are committed: mistakes that people make, each with its place.
import { describe, expect, it } from "@jest/globals";
import { parse, stringify } from "yaml";
import { lintText } from "../../../src/cli/lint.ts";

const FILE = "policy.yaml";
const RULE = { name: "a", action: "Extend", when: "volume.usedRatio >= 0.8", targetUsed: "60%" };
const policy = (spec: object, rest: object = {}): string =>
  stringify({
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "VolumePolicy",
    metadata: { namespace: "shop", name: "default" },
    spec: { limits: { max: "200Gi" }, rules: [RULE], ...spec },
    ...rest,
  });
const clusterPolicy = (ceilings: object): string =>
  policy({ ceilings }, { kind: "ClusterVolumePolicy", metadata: { name: "teams" } });
const said = (text: string): string => lintText(FILE, text).lines.join("\n");

describe("a file of policies", () => {
  it("is said to compile, policy by policy, and other objects in it are passed over", () => {
    const other = stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "other" } });
    expect(lintText(FILE, [policy({}), other, policy({})].join("---\n"))).toEqual({
      lines: [1, 2].map(() => `${FILE}: VolumePolicy shop/default: compiles`),
      refused: 0,
      policies: 2,
    });
  });

  it("with something that is hardly meant is warned of, and not refused", () => {
    const lint = lintText(FILE, policy({ rules: [{ ...RULE, when: "volume.usedRatio <= 0.8" }] }));
    expect(lint.lines).toEqual([expect.stringMatching(/warning: rule a .* is the comparison reversed\?$/)]);
    expect(lint.refused).toBe(0);
  });

  it.each<[string, string, RegExp]>([
    [
      "a misspelt fact",
      policy({ rules: [{ ...RULE, when: "volume.usedratio >= 0.8" }] }),
      /spec\.rules\[0\]\.when, line 1, column 8: .*\n +volume\.usedratio >= 0\.8\n {11}\^\n +hint: did you mean usedRatio\?/,
    ],
    [
      "a misspelt field, however deep",
      policy({ behavior: { shrink: { cooldwn: "6h" } } }),
      /spec\.behavior\.shrink\.cooldwn: there is no such field/,
    ],
    ["a percentage for a ratio", policy({ rules: [{ ...RULE, when: "volume.usedRatio >= 80" }] }), /write 0\.8/],
    [
      "a unit that is none",
      policy({ limits: { max: "200GB" } }),
      /spec\.limits\.max: write a size in bytes, such as 500Mi or 10Gi/,
    ],
    ["no bound", policy({ limits: {} }), /spec\.limits\.max: max is required/],
    [
      "bounds that cross",
      policy({ limits: { min: "500Gi", max: "200Gi" } }),
      /max \(200Gi\) is smaller than min \(500Gi\)/,
    ],
    ["two sizes", policy({ rules: [{ ...RULE, by: "10Gi" }] }), /exactly one of .* there is targetUsed and by/],
    [
      "a number for a text",
      policy({ rules: [{ ...RULE, targetUsed: 0.6 }] }),
      /spec\.rules\[0\]\.targetUsed: .*expected string/,
    ],
    ["another version", policy({}, { apiVersion: "tidemark.dev/v1" }), /apiVersion: write tidemark\.dev\/v1alpha1/],
    ["no name", policy({}, { metadata: {} }), /metadata\.name: give it a name/],
    ["a name that no object has", policy({}, { metadata: { name: "My_Policy" } }), /metadata\.name: use small letters/],
    [
      "a ceiling for a node over the cluster's",
      clusterPolicy({ concurrentOperations: { perNode: 5, perCluster: 3 } }),
      /concurrentOperations: perNode is larger/,
    ],
    [
      "a driver twice",
      clusterPolicy({ driverModifications: [4, 6].map((perDay) => ({ driver: "ebs.csi.aws.com", perDay })) }),
      /driverModifications: ebs\.csi\.aws\.com is there twice/,
    ],
    ["a mistake in a List", stringify({ kind: "List", items: [parse(policy({ limits: {} }))] }), /max is required/],
    ["a kind that JavaScript knows and Kubernetes does not", policy({}, { kind: "constructor" }), /has neither/],
    ["no spec", policy({}, { spec: undefined }), /spec: /],
    ["no metadata", policy({}, { metadata: null }), /metadata\.name: give it a name/],
    ["YAML that is none", "a: [b\n", /line 2/],
    ["no policy", "kind: Pod\n", /has neither a VolumePolicy nor a ClusterVolumePolicy/],
    ["nothing", "", /has neither/],
  ])("with %s is refused, and says where", (_mistake, text, expected) => {
    expect(said(text)).toMatch(expected);
    expect(lintText(FILE, text).refused).toBe(1);
  });
});
