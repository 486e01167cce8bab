// What the API server says of a policy when it is applied. Runs against the embedded control plane or, as the contract suite, the
// server that TIDEMARK_CONTRACT_SERVER names.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { parse } from "yaml";
import { bootstrap } from "../../../demo/stand-ins/bootstrap.ts";
import {
  CLUSTER_VOLUME_POLICIES,
  type ClusterVolumePolicy,
  DEFAULT_MODES,
  VOLUME_POLICIES,
  type VolumePolicy,
} from "../../../src/contracts/kinds/volume-policy.ts";
import type { Resource } from "../../../src/contracts/kubernetes/object.ts";
import { API_VERSION } from "../../../src/contracts/names.ts";
import { createKubeClient } from "../../../src/platform/kube/client/http-client.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { compilePolicy } from "../../../src/policy-engine/policies/compile-policy.ts";
import { APPLY, ApiClient } from "../../contract/api-client.ts";
import { type ContractTarget, startContractTarget } from "../../contract/contract-target.ts";
import { createRecordingLog } from "../../fakes/recording-log.ts";

const RULE = { name: "extend-at-80", action: "Extend", when: "volume.usedRatio >= 0.8", targetUsed: "60%" };
const SHRINK = { name: "shrink-below-30", action: "Shrink", when: "volume.usedRatioMax('24h') < 0.3", by: "25%" };
const LIMITS = { max: "200Gi" };

type Kind = "VolumePolicy" | "ClusterVolumePolicy";

describe("the API server, asked to keep a policy", () => {
  let target: ContractTarget;
  let client: ReturnType<typeof createKubeClient>;
  beforeAll(async () => {
    target = await startContractTarget();
    const { log } = createRecordingLog();
    client = createKubeClient({ connection: { server: target.baseUrl }, effects: directEffects, log });
    const setup = { nodeName: "node-1", initialSize: "1Gi", fsType: "btrfs" } as const;
    await bootstrap(client, { crdDirectory: "kustomize/foundation/crds", ...setup });
  });
  afterAll(async () => {
    await client.close();
    await target.close();
  });

  const policyOf = (spec: object, kind: Kind, name: string) => ({
    apiVersion: API_VERSION,
    kind,
    metadata: kind === "VolumePolicy" ? { namespace: "default", name } : { name },
    spec,
  });
  const apply = (spec: object, kind: Kind = "VolumePolicy", name = "tried") => {
    const resource: Resource<VolumePolicy | ClusterVolumePolicy> =
      kind === "VolumePolicy" ? VOLUME_POLICIES : CLUSTER_VOLUME_POLICIES;
    return client.apply("test/policy", resource, policyOf(spec, kind, name), {
      fieldManager: "test",
      force: true,
    });
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

  const sized = (size: object, rule: object = RULE) => ({
    limits: LIMITS,
    rules: [{ ...rule, targetUsed: undefined, by: undefined, ...size }],
  });
  /** Sixteen, in all the places where there can be one. */
  const expressions = (chars: number) => ({
    limits: LIMITS,
    variables: Array.from({ length: 7 }, (_, i) => ({ name: `v${i}`, expression: "1".padEnd(chars) })),
    rules: [0, 1, 2].map((i) => ({
      name: `r${i}`,
      action: "Extend",
      when: RULE.when.padEnd(chars),
      toExpression: "1".padEnd(chars),
      messageExpression: "''".padEnd(chars),
    })),
  });
  const paced = (extend: object) => ({ limits: LIMITS, rules: [RULE], behavior: { extend } });
  const NO_SIZE = "0 is not a size: write one such as 1Gi, or leave the field out";
  const NO_TARGET = "targetUsed must be at least 1% and less than 100%, such as 60%";
  const NO_DIFFERENCE = "a change by 0 changes nothing: write a percentage such as 25%, or a size such as 10Gi";
  const TOO_LARGE = "8Pi and more is larger than Tidemark handles";

  const CONTRADICTIONS: [string, object, string, string][] = [
    [
      "a min over its max",
      { limits: { min: "1Ti", max: "200Gi" }, rules: [RULE] },
      "spec.limits.min",
      "min (1Ti) is larger than max (200Gi)",
    ],
    [
      "a min over its max by a little, in another unit",
      { limits: { min: "1.001G", max: "1000M" }, rules: [RULE] },
      "spec.limits.min",
      "min (1.001G) is larger than max (1000M)",
    ],
    [
      "a minAvailable that is all of max",
      { limits: { max: "10Gi", minAvailable: "10240Mi" }, rules: [RULE] },
      "spec.limits.minAvailable",
      "minAvailable (10240Mi) leaves nothing of max (10Gi)",
    ],
    [
      "expressions that are too long together",
      expressions(2049),
      "spec",
      "the expressions of this policy have more than 32768 characters in all",
    ],
    ["a max of 0", { limits: { max: "0Gi" }, rules: [SHRINK] }, "spec.limits.max", NO_SIZE],
    ["a min of 0", { limits: { min: "0.00", max: "1Gi" }, rules: [RULE] }, "spec.limits.min", NO_SIZE],
    [
      "a minAvailable of 0",
      { limits: { max: "1Gi", minAvailable: "0" }, rules: [RULE] },
      "spec.limits.minAvailable",
      NO_SIZE,
    ],
    ...["5m", "0h9m", "31d", "0d", "721h"].map((every): [string, object, string, string] => [
      `a trim every ${every}`,
      { limits: LIMITS, rules: [RULE], trim: { every } },
      "spec.trim.every",
      "trim.every must be from 10m to 30d, such as 24h",
    ]),
    ["a max beyond all sizes", { limits: { max: "8Pi" }, rules: [RULE] }, "spec.limits.max", TOO_LARGE],
    ["a targetUsed over everything", sized({ targetUsed: "600%" }), "spec.rules[0].targetUsed", NO_TARGET],
    ["a targetUsed of everything", sized({ targetUsed: "100%" }), "spec.rules[0].targetUsed", NO_TARGET],
    ["a targetUsed of nothing", sized({ targetUsed: "0%" }), "spec.rules[0].targetUsed", NO_TARGET],
    ["a targetUsed of next to nothing", sized({ targetUsed: "0.5%" }), "spec.rules[0].targetUsed", NO_TARGET],
    ["an extend by 0%", sized({ by: "0%" }), "spec.rules[0].by", NO_DIFFERENCE],
    ["an extend by 0 bytes", sized({ by: "0Gi" }), "spec.rules[0].by", NO_DIFFERENCE],
    [
      "a shrink by everything",
      sized({ by: "100%" }, SHRINK),
      "spec.rules[0].by",
      "a shrink by 100% leaves nothing: write less than 100%",
    ],
    ["a change to 0", sized({ to: "0" }), "spec.rules[0].to", NO_SIZE],
    ["a minStep of 0", paced({ minStep: "0" }), "spec.behavior.extend.minStep", NO_SIZE],
    [
      "a minStep over its maxStep",
      paced({ minStep: "2Gi", maxStep: "1Gi" }),
      "spec.behavior.extend.minStep",
      "minStep (2Gi) is larger than maxStep (1Gi)",
    ],
    [
      "a window that never opens",
      paced({ windows: [{ cron: "0 2 * * *", duration: "0h00m" }] }),
      "spec.behavior.extend.windows[0].duration",
      "a window of 0s never opens: write how long it stays open, such as 3h",
    ],
  ];
  describe.each<Kind>(["VolumePolicy", "ClusterVolumePolicy"])("of kind %s", (kind) => {
    it.each(CONTRADICTIONS)("refuses %s, and says where and why", async (_case, spec, field, message) => {
      await expect(apply(spec, kind)).rejects.toThrow(refusal(field, message));
    });

    it.each(CONTRADICTIONS.filter(([name]) => name !== "a targetUsed of next to nothing"))(
      "has the engine for a second line, which refuses %s that got in before",
      (_case, spec) => {
        const { problems } = compilePolicy(policyOf(spec, kind, "kept") as VolumePolicy);
        expect(problems).not.toEqual([]);
      },
    );

    it.each<[string, object]>([
      ["a min that is its max", { limits: { min: "1Gi", max: "1024Mi" }, rules: [RULE] }],
      ["as many expressions as there may be", expressions(2048)],
      ["the largest size", { limits: { max: "8191Ti" }, rules: [RULE] }],
      ["a size with a fraction", { limits: { min: "0.5Gi", max: "1.5G" }, rules: [RULE] }],
      ["the least targetUsed", sized({ targetUsed: "1%" })],
      ["the most targetUsed", sized({ targetUsed: "99.9%" })],
      ["an extend by more than all", sized({ by: "300%" })],
      ["a shrink by nearly all", sized({ by: "99%" }, SHRINK)],
      ["a shrink by bytes", sized({ by: "100Gi" }, SHRINK)],
      ["a cooldown of nothing", paced({ cooldown: "0s" })],
      ["a minStep over the default maxStep", paced({ minStep: "200Gi" })],
      ...["10m", "1h30m", "24h", "7d", "30d", "720h"].map((every): [string, object] => [
        `a trim every ${every}`,
        { limits: LIMITS, rules: [RULE], trim: { every } },
      ]),
    ])("takes %s, and so does the engine", async (_case, spec) => {
      await expect(apply(spec, kind, "taken")).resolves.toMatchObject({ metadata: { name: "taken" } });
      expect(compilePolicy(policyOf(spec, kind, "taken") as VolumePolicy).problems).toEqual([]);
    });
  });

  it.each<[string, object, string, string]>([
    ["a max of 0", { ceilings: { max: "0" } }, "spec.ceilings.max", NO_SIZE],
    ["a budget of 0", { ceilings: { bytesPerNamespace: "0Ti" } }, "spec.ceilings.bytesPerNamespace", NO_SIZE],
    ["a max beyond all sizes", { ceilings: { max: "1Ei" } }, "spec.ceilings.max", TOO_LARGE],
    [
      "a max under the policy's own min",
      { limits: { min: "20Gi" }, ceilings: { max: "10Gi" } },
      "spec.limits.min",
      "limits.min (20Gi) is larger than ceilings.max (10Gi)",
    ],
    [
      "a budget under the policy's own min",
      { limits: { min: "20Gi" }, ceilings: { bytesPerNamespace: "10Gi" } },
      "spec.limits.min",
      "limits.min (20Gi) is larger than ceilings.bytesPerNamespace (10Gi)",
    ],
    [
      "a max that the policy's own minAvailable takes whole",
      { limits: { minAvailable: "10Gi" }, ceilings: { max: "10Gi" } },
      "spec.limits.minAvailable",
      "limits.minAvailable (10Gi) leaves nothing of ceilings.max (10Gi)",
    ],
  ])("refuses a cluster policy whose ceilings have %s, and says where and why", async (_case, spec, field, message) => {
    await expect(apply(spec, "ClusterVolumePolicy")).rejects.toThrow(refusal(field, message));
  });

  it.each<[string, object, string]>([
    ["spec.limits.max", { limits: { max: "100GB" } }, "write a size in bytes, such as 500Mi or 10Gi"],
    ["spec.rules[0].to", { rules: [{ ...SHRINK, by: undefined, to: "-1Gi" }] }, "write a size in bytes, such as"],
    ["spec.rules[0].by", { rules: [{ ...SHRINK, by: "a bit" }] }, "write a percentage such as 25%, or a size in bytes"],
    ["spec.rules[0].targetUsed", { rules: [{ ...RULE, targetUsed: "0.6" }] }, "less than 100%, such as 60%"],
    ["spec.rules[0].for", { rules: [{ ...RULE, for: "60" }] }, "write a duration in ms, s, m, h and d, such as 30s"],
    ["spec.rules[0].name", { rules: [{ ...RULE, name: "Extend At 80" }] }, "such as extend-at-80"],
    ["spec.variables[0].name", { variables: [{ name: "24h", expression: "1" }] }, "such as peak"],
    ["spec.behavior.shrink.cooldown", { behavior: { shrink: { cooldown: "soon" } } }, "such as 30s or 1h30m"],
    ["spec.trim.every", { trim: { every: "daily" } }, "write hours and minutes such as 24h or 1h30m, or whole days"],
  ])("says with an example how %s is written, and shows no regular expression", async (field, spec, message) => {
    const refused = apply({ limits: LIMITS, rules: [RULE], ...spec });
    await expect(refused).rejects.toThrow(`${field}: Invalid value`);
    await expect(refused).rejects.toThrow(message);
    await expect(refused).rejects.not.toThrow(/should match|evaluation error/);
  });

  it("says what is wrong with one size and with another one at once", async () => {
    const refused = apply({ limits: { min: "much", max: "0" }, rules: [SHRINK] });
    await expect(refused).rejects.toThrow(
      `spec.limits.min: Invalid value: "much": write a size in bytes, such as 500Mi or 10Gi`,
    );
    await expect(refused).rejects.toThrow(`spec.limits.max: Invalid value: "0": ${NO_SIZE}`);
    await expect(refused).rejects.not.toThrow(`"much": ${NO_SIZE}`);
  });

  it.each<[string, object | undefined, object]>([
    ["no mode", undefined, DEFAULT_MODES],
    ["an empty one", {}, DEFAULT_MODES],
    ["a mode for one direction", { extend: "Recommend" }, { ...DEFAULT_MODES, extend: "Recommend" }],
  ])("writes down what %s means, which is what the engine takes it for", async (_case, mode, written) => {
    const spec = { limits: LIMITS, rules: [RULE], ...(mode && { mode }) };
    const { spec: kept } = await apply(spec, "VolumePolicy", "defaulted");
    expect(kept.mode).toEqual(written);
    expect(compilePolicy(policyOf(spec, "VolumePolicy", "defaulted") as VolumePolicy).mode).toEqual(written);
  });

  it("shows no drift when a policy without a mode is applied again, and gives nobody what it has filled in", async () => {
    const spec = { limits: LIMITS, rules: [RULE] };
    await apply(spec, "VolumePolicy", "steady");
    // A kube-apiserver shows the default of a status from the start, and stores it with the next write.
    await apply(spec, "VolumePolicy", "steady");
    const path = `/apis/${API_VERSION}/namespaces/default/volumepolicies/steady`;
    const api = new ApiClient(target.baseUrl);
    const { body: first } = await api.get(path);
    const again = policyOf(spec, "VolumePolicy", "steady");
    expect((await api.patch(`${path}?fieldManager=test&dryRun=All`, APPLY, again)).body).toEqual(first);
    expect((await api.apply(path, "test", again)).body).toEqual(first);
    const owned = JSON.stringify(first["metadata"].managedFields);
    expect(owned).toContain("f:limits");
    expect(owned).not.toContain("f:mode");
  });

  it("falls back to the default when a mode is taken out again", async () => {
    const spec = { limits: LIMITS, rules: [RULE] };
    await apply({ ...spec, mode: { extend: "Recommend", shrink: "Enforce" } }, "VolumePolicy", "changed");
    expect((await apply(spec, "VolumePolicy", "changed")).spec.mode).toEqual(DEFAULT_MODES);
  });

  it("takes mode Approve for a direction, a rule and a ceiling, and no other word", async () => {
    const spec = { limits: LIMITS, rules: [{ ...RULE, mode: "Approve" }], mode: { shrink: "Approve" } };
    expect((await apply(spec)).spec).toMatchObject(spec);
    const ceilings = apply({ ceilings: { modes: { extend: "Approve" } } }, "ClusterVolumePolicy", "approved");
    expect((await ceilings).spec).toMatchObject({ ceilings: { modes: { extend: "Approve" } } });
    const asked = apply({ limits: LIMITS, rules: [{ ...RULE, mode: "Ask" }] });
    await expect(asked).rejects.toThrow(/spec\.rules\[0\]\.mode.*"Ask".*"Enforce", "Approve", "Recommend"/);
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

/** The field, its value where the rule is its own, and the sentence: what kubectl prints. */
function refusal(field: string, message: string): RegExp {
  const literal = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  return new RegExp(`${literal(field)}: Invalid value: (?:\\S+: )?${literal(message)}`);
}
