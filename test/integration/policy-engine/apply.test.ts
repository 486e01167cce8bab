// What the engine's writes leave on the API server where somebody else was quicker: right before one of them the test acts.
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { FILESYSTEMS, type Filesystem } from "../../../src/contracts/kinds/filesystem.ts";
import type { DecidedTarget } from "../../../src/contracts/kinds/target.ts";
import { VOLUME_POLICIES, type VolumePolicy } from "../../../src/contracts/kinds/volume-policy.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import type { KubeClient } from "../../../src/platform/kube/client/client.ts";
import { KubeError } from "../../../src/platform/kube/kube-error.ts";
import { applyTarget, applyTrim } from "../../../src/policy-engine/apply/apply-plan.ts";
import type { Plan } from "../../../src/policy-engine/decide/plan.ts";
import { compilePolicy } from "../../../src/policy-engine/policies/compile-policy.ts";
import { reportPolicy } from "../../../src/policy-engine/report/policy-reports.ts";
import { unused } from "../../../src/policy-engine/report/policy-uses.ts";
import { reportPlan } from "../../../src/policy-engine/report/report-plan.ts";
import { interposed } from "../../fakes/interposed-client.ts";
import { applyPolicy, type Cluster, makeVolume, sayStalled, startCluster } from "./engine-under-test.ts";

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster();
});
afterAll(() => cluster.stop());

async function live(name: string): Promise<Filesystem> {
  const filesystem = await cluster.client.get(FILESYSTEMS, { namespace: "default", name });
  if (filesystem === undefined) throw new Error(`no Filesystem ${name}`);
  return filesystem;
}

const target = (sizeGib: number, decidedAt: string, epoch = 3): DecidedTarget => ({
  sizeBytes: sizeGib * GIB,
  fromBytes: GIB,
  epoch,
  decidedAt,
  notAfterMs: undefined,
  members: undefined,
  why: undefined,
});

describe("a target", () => {
  it("is not written to a Filesystem that was deleted and made again", async () => {
    await makeVolume(cluster, "remade", GIB);
    const before = await live("remade");
    await cluster.client.delete("test/filesystem", FILESYSTEMS, { namespace: "default", name: "remade" });
    await makeVolume(cluster, "remade", GIB);
    const write = applyTarget(cluster.client, before, target(2, "2026-11-20T12:00:00.000Z"), undefined);
    await expect(write).rejects.toMatchObject({ reason: "Invalid" });
    expect((await live("remade")).spec.target).toBeUndefined();
  });
});

describe("a target that says why", () => {
  const why = { policy: "default/p", rule: "extend", reason: "RuleFired", message: "it is full\u001b" } as const;

  it("has its reason in the same write", async () => {
    await makeVolume(cluster, "explained", GIB);
    await applyTarget(
      cluster.client,
      await live("explained"),
      { ...target(2, "2026-11-20T12:00:00.000Z"), why },
      undefined,
    );
    const { spec } = await live("explained");
    expect(spec.target).toMatchObject({ size: "2Gi", ...why, message: "it is full\\u001b" });
  });

  it("is written without where the definition is older than the engine", async () => {
    await makeVolume(cluster, "older", GIB);
    const before = await live("older");
    let refusals = 0;
    // As kube-apiserver says it: test/contract/apply.test.ts.
    const apply: KubeClient["apply"] = async (point, resource, configuration, options) => {
      const spec = configuration["spec"] as { target?: { reason?: string } } | undefined;
      if (spec?.target?.reason === undefined) return cluster.client.apply(point, resource, configuration, options);
      refusals += 1;
      const said = "failed to create typed patch object (…): .spec.target.reason: field not declared in schema";
      throw new KubeError("Internal", 500, said);
    };
    const older = { ...cluster.client, apply };
    const written = await applyTarget(older, before, { ...target(2, "2026-11-20T12:00:00.000Z"), why }, undefined);
    expect(refusals).toBe(1);
    expect(written.spec.target).toMatchObject({ size: "2Gi", from: "1Gi" });
    expect(written.spec.target?.reason).toBeUndefined();
  });

  it("stays refused for anything else", async () => {
    await makeVolume(cluster, "refused", GIB);
    const refused = {
      ...cluster.client,
      apply: () => Promise.reject(new KubeError("Invalid", 422, "epoch never falls")),
    };
    const write = applyTarget(
      refused,
      await live("refused"),
      { ...target(2, "2026-11-20T12:00:00.000Z"), why },
      undefined,
    );
    await expect(write).rejects.toThrow("epoch never falls");
  });
});

describe("trims", () => {
  it.each([
    ["of its own", 3],
    ["of a newer leader", 4],
  ])("leave a target %s that was written right before them", async (_whose, epoch) => {
    const name = `trimmed-${epoch}`;
    await makeVolume(cluster, name, GIB);
    const cached = await live(name);
    await applyTarget(cluster.client, cached, target(2, "2026-11-20T12:00:00.000Z"), undefined);
    const newer = target(4, "2026-11-20T12:00:01.000Z", epoch);
    const late = interposed(
      cluster.client,
      (call) => call === "apply filesystems",
      () => applyTarget(cluster.client, cached, newer, undefined),
    );
    await expect(applyTrim(late.client, cached, { every: "1d" }, 3)).rejects.toMatchObject({ reason: "Conflict" });
    expect((await live(name)).spec).toMatchObject({ target: { size: "4Gi", epoch } });
  });

  it("are written beside the target as it stands, not as it was cached", async () => {
    await makeVolume(cluster, "lagging", GIB);
    const cached = await live("lagging");
    await applyTarget(cluster.client, cached, target(2, "2026-11-20T12:00:00.000Z"), undefined);
    await applyTrim(cluster.client, cached, { every: "1d" }, 3);
    expect((await live("lagging")).spec).toMatchObject({ target: { size: "2Gi" }, trim: { every: "1d" } });
  });
});

describe("what was decided", () => {
  const NO_EVENTS = { record: () => {}, flush: async () => {} };
  const NO_CHANGES = { extends: [], shrinks: [], flaps: [], peakBeforeShrinkBytes: undefined };
  const hold = (message: string): Plan => ({
    kind: "hold",
    reason: "WithinBounds",
    message,
    policy: undefined,
    rule: undefined,
    uncappedBytes: undefined,
    heldRules: undefined,
    preview: undefined,
    nextEligibleMs: undefined,
  });
  const tell = (client: KubeClient, of: Filesystem, message: string, isLeader: () => boolean): Promise<boolean> =>
    reportPlan(client, NO_EVENTS, of, hold(message), NO_CHANGES, Date.now(), isLeader);
  /** Somebody acts right before the status is written. */
  const meanwhile = (act: () => Promise<unknown>) =>
    interposed(cluster.client, (call) => call === "apply filesystems", act);

  it("is told on a Filesystem that the operator has written to meanwhile, with one read more", async () => {
    await makeVolume(cluster, "written-to", GIB);
    const late = meanwhile(() => sayStalled(cluster, "written-to", "ResizeFailed"));
    expect(await tell(late.client, await live("written-to"), "enough room", () => true)).toBe(true);
    expect(late.calls).toEqual(["apply filesystems", "get filesystems", "apply filesystems"]);
    const { status } = await live("written-to");
    expect(status?.scaling?.message).toBe("enough room");
    expect(status?.conditions).toHaveLength(1);
  });

  it("is written without what a terminal acts on, which a policy's message may hold", async () => {
    await makeVolume(cluster, "shouted-at", GIB);
    await tell(cluster.client, await live("shouted-at"), "\u001b[2Jall is well", () => true);
    expect((await live("shouted-at")).status?.scaling?.message).toBe("\\u001b[2Jall is well");
  });

  it("is not told by a leader that was cut off over what the next leader has told", async () => {
    await makeVolume(cluster, "led-anew", GIB);
    const before = await live("led-anew");
    const late = meanwhile(() => tell(cluster.client, before, "said by the next leader", () => true));
    let asked = 0;
    // It leads when it begins to write, and does not when it has been refused.
    expect(await tell(late.client, before, "said by the former leader", () => asked++ === 0)).toBe(false);
    expect((await live("led-anew")).status?.scaling?.message).toBe("said by the next leader");
  });

  it("is not told of a Filesystem that was deleted and made again", async () => {
    await makeVolume(cluster, "another", GIB);
    const before = await live("another");
    const late = meanwhile(async () => {
      await cluster.client.delete("test/filesystem", FILESYSTEMS, { namespace: "default", name: "another" });
      await makeVolume(cluster, "another", GIB);
    });
    expect(await tell(late.client, before, "of the former one", () => true)).toBe(false);
    expect((await live("another")).status?.scaling).toBeUndefined();
  });
});

describe("what became of a policy", () => {
  const NO_EVENTS = { record: () => {}, flush: async () => {} };
  const rule = { name: "full", action: "Extend" as const, when: "volume.usedRatio > 0.8", targetUsed: "60%" };
  const SPEC = { limits: { max: "10Gi" }, rules: [rule] };
  const livePolicy = async (name: string): Promise<VolumePolicy> => {
    const policy = await cluster.client.get(VOLUME_POLICIES, { namespace: "default", name });
    if (policy === undefined) throw new Error(`no policy ${name}`);
    return policy;
  };
  const tell = (client: KubeClient, object: VolumePolicy, matched: number, isLeader = () => true): Promise<void> => {
    const use = { ...unused(), matchedFilesystems: matched, reachBytes: matched * GIB, withoutCeiling: matched };
    const entry = { object, compiled: compilePolicy(object) };
    return reportPolicy(client, NO_EVENTS, entry, { use, failing: undefined }, isLeader, Date.now());
  };
  const meanwhile = (act: () => Promise<unknown>) =>
    interposed(cluster.client, (call) => call === "apply volumepolicies", act);

  it("is told on the version that stands, where only others have written to it", async () => {
    await applyPolicy(cluster, "labelled", SPEC);
    const object = await livePolicy("labelled");
    const label = { metadata: { labels: { team: "shop" } } };
    const late = meanwhile(() =>
      cluster.client.mergePatch("test/label", VOLUME_POLICIES, { namespace: "default", name: "labelled" }, label),
    );
    await tell(late.client, object, 3);
    expect((await livePolicy("labelled")).status).toMatchObject({
      matchedFilesystems: 3,
      reach: "3Gi",
      withoutCeiling: 3,
    });
  });

  it("names the first few of those that it conflicts with, however many there are", async () => {
    await applyPolicy(cluster, "one-of-many", SPEC);
    const object = await livePolicy("one-of-many");
    const conflicts = new Set(Array.from({ length: 2000 }, (_, i) => `default/${"long-name-".repeat(10)}${1000 + i}`));
    const use = { ...unused(), matchedFilesystems: 1, conflicts };
    const entry = { object, compiled: compilePolicy(object) };
    await reportPolicy(cluster.client, NO_EVENTS, entry, { use, failing: undefined }, () => true, Date.now());
    const { status } = await livePolicy("one-of-many");
    expect(status?.conditions?.find(({ type }) => type === "Conflict")?.message).toMatch(
      /^same scope and priority as default\/long-name-[^ ]+1000, .*1004 and 1995 more: the oldest decides$/,
    );
  });

  it("is not told by a leader that was cut off over what the next leader has told", async () => {
    await applyPolicy(cluster, "led-anew", SPEC);
    const object = await livePolicy("led-anew");
    const late = meanwhile(() => tell(cluster.client, object, 2));
    let asked = 0;
    await tell(late.client, object, 1, () => asked++ === 0);
    expect((await livePolicy("led-anew")).status?.matchedFilesystems).toBe(2);
  });

  it("is not told of a policy that its author has changed, or made again", async () => {
    await applyPolicy(cluster, "changed", SPEC);
    const object = await livePolicy("changed");
    const rules = [{ ...rule, when: "volume.usedRatio > 0.7" }];
    const reasons = async () => (await livePolicy("changed")).status?.conditions?.map(({ reason }) => reason);
    await tell(meanwhile(() => applyPolicy(cluster, "changed", { ...SPEC, rules })).client, object, 1);
    expect(await reasons()).toEqual(["Pending"]);

    const former = await livePolicy("changed");
    const remake = async (): Promise<void> => {
      await cluster.client.delete("test/policy", VOLUME_POLICIES, { namespace: "default", name: "changed" });
      await applyPolicy(cluster, "changed", SPEC);
    };
    await tell(meanwhile(remake).client, former, 1);
    expect(await reasons()).toEqual(["Pending"]);
  });
});
