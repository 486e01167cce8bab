import { afterAll, afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { FILESYSTEMS, type Filesystem } from "../../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { CLUSTER_VOLUME_POLICIES, VOLUME_POLICIES } from "../../../src/contracts/kinds/volume-policy.ts";
import { EVENTS, PERSISTENT_VOLUME_CLAIMS, RESOURCE_QUOTAS } from "../../../src/contracts/kubernetes/resources.ts";
import { GIB, MIB } from "../../../src/contracts/quantities/quantity.ts";
import { EPOCH_MAX } from "../../../src/contracts/schema/schema.ts";
import { systemClock } from "../../../src/platform/process/clock.ts";
import { applyTarget } from "../../../src/policy-engine/apply/apply-plan.ts";
import { waitFor } from "../../harness/wait-for.ts";
import {
  applyPolicy,
  type Cluster,
  type EngineUnderTest,
  layoutOf,
  makeVolume,
  reportSize,
  sayStalled,
  startCluster,
  startEngine,
  untilFilesystem,
} from "./engine-under-test.ts";

/** Of a target: for any number of members, and without a reason. */
const UNLIMITED = { notAfterMs: undefined, members: undefined, why: undefined };

const BREATHING = {
  limits: { min: "1Gi", max: "10Gi", minAvailable: "64Mi" },
  mode: { extend: "Enforce" as const, shrink: "Enforce" as const },
  rules: [
    { name: "extend-at-80", action: "Extend" as const, when: "volume.usedRatio >= 0.8", targetUsed: "60%" },
    { name: "shrink-below-30", action: "Shrink" as const, when: "volume.usedRatioMax('2s') < 0.3", targetUsed: "50%" },
  ],
  behavior: { extend: { minStep: "256Mi" }, shrink: { stabilization: "0s", cooldown: "1s", minStep: "256Mi" } },
};

/** What the claims of these volumes request. */
const REQUEST = 10 * GIB;

describe("the policy-engine", () => {
  let cluster: Cluster;
  let engines: EngineUnderTest[] = [];
  const engine = async (args: readonly string[] = []): Promise<EngineUnderTest> => {
    const started = await startEngine(cluster, args);
    engines.push(started);
    return started;
  };
  const leader = async (): Promise<EngineUnderTest> => {
    const started = await engine();
    await waitFor("leadership", () => (started.leadership.isLeader() ? true : undefined));
    return started;
  };
  const pause = (name: string, until: string | null): Promise<unknown> => {
    const annotations = { "tidemark.dev/paused-until": until };
    const claim = { namespace: "default", name };
    return cluster.client.mergePatch("test/pause", PERSISTENT_VOLUME_CLAIMS, claim, { metadata: { annotations } });
  };
  const inAnHour = (): string => `${new Date(Date.now() + 3_600_000).toISOString().slice(0, 19)}Z`;
  beforeAll(async () => {
    cluster = await startCluster();
  });
  afterEach(async () => {
    for (const started of engines) await started.stop();
    engines = [];
  });
  afterAll(() => cluster.stop());

  it("extends on the sample that crosses the threshold, and says why on the Filesystem and in an Event", async () => {
    await applyPolicy(cluster, "breathing", BREATHING);
    const handle = await makeVolume(cluster, "crossing", GIB);
    const started = await leader();
    started.send(handle, { sizeBytes: GIB, usedBytes: 850 * MIB });
    const filesystem = await untilFilesystem(cluster, "crossing", "an extend", ({ spec }) => spec.target !== undefined);
    expect(filesystem.spec.target).toMatchObject({ size: "1417Mi", from: "1Gi", epoch: started.leadership.epoch() });
    expect(filesystem.spec.target).toMatchObject({
      reason: "RuleFired",
      rule: "extend-at-80",
      policy: "default/breathing",
    });
    await waitFor("the event", async () => {
      const { items } = await cluster.client.list(EVENTS, { namespace: "default" });
      return items.find(({ reason, involvedObject }) => reason === "Extending" && involvedObject.name === "crossing");
    });
  });

  it("says on a policy how far it reaches, and how many of its volumes no ceiling bounds", async () => {
    await applyPolicy(cluster, "breathing", BREATHING);
    await makeVolume(cluster, "reached", GIB);
    await leader();
    const reach = (gib: number, isBounded: boolean) =>
      waitFor(`a reach of ${gib} GiB for each volume`, async () => {
        const policy = await cluster.client.get(VOLUME_POLICIES, { namespace: "default", name: "breathing" });
        const { matchedFilesystems = 0, reach: reached, withoutCeiling } = policy?.status ?? {};
        const isSo =
          reached === `${matchedFilesystems * gib}Gi` && withoutCeiling === (isBounded ? 0 : matchedFilesystems);
        return (matchedFilesystems > 0 && isSo) || undefined;
      });
    await reach(10, false);
    const name = { name: "guard" };
    const guard = { apiVersion: "tidemark.dev/v1alpha1", kind: "ClusterVolumePolicy", metadata: name } as const;
    const ceilings = { max: "4Gi" };
    await cluster.client.create("test/ceiling", CLUSTER_VOLUME_POLICIES, { ...guard, spec: { ceilings } });
    await reach(4, true);
    await cluster.client.delete("test/ceiling", CLUSTER_VOLUME_POLICIES, name);
    await reach(10, false);
  });

  it("says on a policy that a rule of it fails, on how many volumes, and no more once it answers", async () => {
    const when = "volume.labels.tier == 'cache' && volume.usedRatio >= 0.1";
    const onLabel = { name: "on-label", action: "Extend" as const, when, targetUsed: "60%" };
    await applyPolicy(cluster, "on-labels", { ...BREATHING, priority: 5, rules: [onLabel] });
    const handle = await makeVolume(cluster, "unlabelled", GIB);
    const { send } = await leader();
    const said = async (): Promise<string | undefined> => {
      const policy = await cluster.client.get(VOLUME_POLICIES, { namespace: "default", name: "on-labels" });
      return policy?.status?.conditions?.find(({ type }) => type === "RuleError")?.message;
    };
    await waitFor("the rule that fails", async () => {
      send(handle, { sizeBytes: GIB, usedBytes: GIB / 2 });
      return (
        /^correct the rule, which fails on \d+ volumes?, such as default\/.*: on-label: /.test((await said()) ?? "") ||
        undefined
      );
    });
    await applyPolicy(cluster, "on-labels", {
      ...BREATHING,
      priority: 5,
      rules: [{ ...onLabel, when: `'tier' in volume.labels && ${when}` }],
    });
    await waitFor("no rule that fails", async () => {
      send(handle, { sizeBytes: GIB, usedBytes: GIB / 2 });
      return (await said()) === undefined || undefined;
    });
    await cluster.client.delete("test/policy", VOLUME_POLICIES, { namespace: "default", name: "on-labels" });
  });

  it("leaves a claim alone until its annotation says, and extends it once that is taken away", async () => {
    await applyPolicy(cluster, "breathing", BREATHING);
    const handle = await makeVolume(cluster, "paused", GIB);
    const { send } = await leader();
    const until = inAnHour();
    await pause("paused", until);
    await untilFilesystem(
      cluster,
      "paused",
      "a pause",
      ({ status }) => status?.scaling?.reason === "NotMounted" || status?.scaling?.reason === "Paused",
    );
    const crossing = () => send(handle, { sizeBytes: GIB, usedBytes: (7 * GIB) / 8 });
    const held = await untilFilesystem(cluster, "paused", "a rule that waits", ({ status }) => {
      crossing();
      return status?.scaling?.rule === "extend-at-80";
    });
    expect(held.status?.scaling).toMatchObject({ reason: "Paused", nextEligibleTime: until.replace("Z", ".000Z") });
    expect(held.spec.target).toBeUndefined();
    await pause("paused", null);
    await untilFilesystem(cluster, "paused", "an extend", ({ spec }) => {
      crossing();
      return spec.target?.reason === "RuleFired";
    });
  });

  it("grows nothing over a ResourceQuota of its namespace, says so, and goes on once there is more", async () => {
    await applyPolicy(cluster, "breathing", { ...BREATHING, limits: { ...BREATHING.limits, max: "40Gi" } });
    const handle = await makeVolume(cluster, "limited", REQUEST);
    const name = { namespace: "default", name: "team" };
    const hard = { "requests.storage": "30Gi" };
    const quota = { apiVersion: "v1", kind: "ResourceQuota", metadata: name };
    await cluster.client.create("test/quota", RESOURCE_QUOTAS, { ...quota, spec: { hard } });
    // As the controller of a cluster counts it.
    await cluster.client.mergePatch("test/quota", RESOURCE_QUOTAS, name, { status: { hard, used: hard } }, "status");
    const started = await leader();
    started.send(handle, { sizeBytes: REQUEST, usedBytes: 8704 * MIB });
    const held = await untilFilesystem(
      cluster,
      "limited",
      "a hold",
      ({ status }) => status?.scaling?.reason === "AtMaximum",
    );
    expect(held.status?.scaling?.message).toContain("what ResourceQuota team leaves of 30Gi requests.storage (10Gi)");
    expect(held.spec.target).toBeUndefined();
    await cluster.client.delete("test/quota", RESOURCE_QUOTAS, name);
    await untilFilesystem(cluster, "limited", "an extend", ({ spec }) => {
      started.send(handle, { sizeBytes: REQUEST, usedBytes: 8806 * MIB });
      return spec.target !== undefined;
    });
  });

  it("says what it has decided on a Filesystem that was deleted and made again, too", async () => {
    // Of an hour there is never enough, however slow the machine: of two seconds there soon is.
    const longShrink = {
      name: "shrink",
      action: "Shrink" as const,
      when: "volume.usedRatioMax('1h') < 0.3",
      to: "1Gi",
    };
    await applyPolicy(cluster, "breathing", { ...BREATHING, rules: [longShrink] });
    const handle = await makeVolume(cluster, "remade", GIB);
    const started = await leader();
    started.send(handle, { sizeBytes: GIB, usedBytes: 500 * MIB });
    const isTold = () =>
      untilFilesystem(cluster, "remade", "a hold", ({ status }) => status?.scaling?.reason === "NotEnoughHistory");
    const first = await isTold();
    await cluster.client.delete("test/filesystem", FILESYSTEMS, { namespace: "default", name: "remade" });
    await makeVolume(cluster, "remade", GIB);
    started.send(handle, { sizeBytes: GIB, usedBytes: 501 * MIB });
    expect((await isTold()).metadata.uid).not.toBe(first.metadata.uid);
  });

  it("asks once for one crossing, however many samples tell of it, and again only when the operation has ended", async () => {
    await applyPolicy(cluster, "breathing", BREATHING);
    const handle = await makeVolume(cluster, "once", GIB);
    const started = await leader();
    started.send(handle, { sizeBytes: GIB, usedBytes: 850 * MIB });
    const first = await untilFilesystem(cluster, "once", "an extend", ({ spec }) => spec.target !== undefined);
    for (let i = 1; i <= 20; i += 1) started.send(handle, { sizeBytes: GIB, usedBytes: (850 + i) * MIB });
    await untilFilesystem(cluster, "once", "a hold", ({ status }) => status?.scaling?.reason === "OperationInProgress");
    const later = await cluster.client.get(FILESYSTEMS, { namespace: "default", name: "once" });
    expect(later?.spec.target).toEqual(first.spec.target);
    await reportSize(cluster, handle, 1417 * MIB);
    started.send(handle, { sizeBytes: 1417 * MIB, usedBytes: 1200 * MIB });
    const last = await untilFilesystem(cluster, "once", "the next extend", (one) => one.spec.target?.from === "1417Mi");
    // By now all that was told before has been heard: between the two targets there was no other.
    expect(last.metadata.generation).toBe((first.metadata.generation ?? 0) + 1);
  });

  it("leaves an emergency grant on the layout, and tells the agent from which use on an extend would come", async () => {
    await applyPolicy(cluster, "breathing", BREATHING);
    const handle = await makeVolume(cluster, "grant", GIB);
    const started = await leader();
    started.send(handle, { sizeBytes: GIB, usedBytes: 300 * MIB });
    const layout = await waitFor("a grant", async () => {
      const seen = await layoutOf(cluster, handle);
      return seen?.spec.emergency === undefined ? undefined : seen;
    });
    expect(layout.spec.emergency).toMatchObject({ minAvailable: "64Mi", epoch: started.leadership.epoch() });
    const guided = await waitFor("guidance", () =>
      started.guidance.find(
        ({ volumeHandle, nextExtendUsedBytes }) => volumeHandle === handle && nextExtendUsedBytes > 0,
      ),
    );
    expect(guided.nextExtendUsedBytes / GIB).toBeCloseTo(0.8, 2);
  });

  it("tells an agent that was started again, too, although nothing has changed", async () => {
    await applyPolicy(cluster, "breathing", BREATHING);
    const handle = await makeVolume(cluster, "restarted-agent", GIB);
    const started = await leader();
    const isTold = () => started.guidance.some((one) => one.volumeHandle === handle) || undefined;
    started.send(handle, { sizeBytes: GIB, usedBytes: 300 * MIB });
    await waitFor("guidance", isTold);
    started.restartAgent();
    await waitFor("guidance once more", () => {
      started.send(handle, { sizeBytes: GIB, usedBytes: 300 * MIB });
      return isTold();
    });
  });

  it("takes the grant back when the policy that allowed it is gone", async () => {
    await applyPolicy(cluster, "breathing", BREATHING);
    const handle = await makeVolume(cluster, "revoked", GIB);
    const started = await leader();
    started.send(handle, { sizeBytes: GIB, usedBytes: 300 * MIB });
    await waitFor("a grant", async () => (await layoutOf(cluster, handle))?.spec.emergency);
    await cluster.client.delete("test/policy", VOLUME_POLICIES, { namespace: "default", name: "breathing" });
    await waitFor("no grant", async () => {
      started.send(handle, { sizeBytes: GIB, usedBytes: 300 * MIB });
      return (await layoutOf(cluster, handle))?.spec.emergency === undefined ? true : undefined;
    });
  });

  it("tells a policy's author where it does not compile, holds its volumes, and still extends at minAvailable", async () => {
    const broken = [
      { name: "extend-at-80", action: "Extend" as const, when: "volume.usedRato >= 0.8", targetUsed: "60%" },
    ];
    await applyPolicy(cluster, "breathing", { ...BREATHING, rules: broken });
    const handle = await makeVolume(cluster, "invalid", GIB);
    const started = await leader();
    started.send(handle, { sizeBytes: GIB, usedBytes: 900 * MIB });
    await untilFilesystem(
      cluster,
      "invalid",
      "PolicyInvalid",
      ({ status }) => status?.scaling?.reason === "PolicyInvalid",
    );
    const policy = await waitFor("the policy's status", async () => {
      const seen = await cluster.client.get(VOLUME_POLICIES, { namespace: "default", name: "breathing" });
      return seen?.status?.conditions?.some(({ type, status }) => type === "Stalled" && status === "True")
        ? seen
        : undefined;
    });
    const message = policy.status?.conditions?.find(({ type }) => type === "Ready")?.message;
    expect(message).toContain("spec.rules[0].when");
    expect(message).toContain("usedRatio");
    started.send(handle, { sizeBytes: GIB, usedBytes: 980 * MIB });
    await untilFilesystem(cluster, "invalid", "an extend", ({ spec }) => spec.target?.reason === "BelowMinAvailable");
  });

  it("puts an edited policy into force at once", async () => {
    await applyPolicy(cluster, "breathing", BREATHING);
    const handle = await makeVolume(cluster, "edited", GIB);
    const started = await leader();
    started.send(handle, { sizeBytes: GIB, usedBytes: 600 * MIB });
    await untilFilesystem(cluster, "edited", "a hold", ({ status }) => status?.scaling?.plan === "hold");
    const [extend, shrink] = BREATHING.rules;
    await applyPolicy(cluster, "breathing", {
      ...BREATHING,
      rules: [{ ...extend!, when: "volume.usedRatio >= 0.5" }, shrink!],
    });
    await untilFilesystem(cluster, "edited", "an extend", ({ spec }) => {
      started.send(handle, { sizeBytes: GIB, usedBytes: 600 * MIB });
      return spec.target !== undefined;
    });
  });

  it("never decides on readings that cannot be", async () => {
    await applyPolicy(cluster, "breathing", BREATHING);
    const handle = await makeVolume(cluster, "absurd", 4 * GIB);
    const started = await leader();
    const before = await untilFilesystem(cluster, "absurd", "being there", () => true);
    for (const usage of [
      { sizeBytes: 4 * GIB, usedBytes: -GIB },
      { sizeBytes: 4 * GIB, usedBytes: 5 * GIB },
    ])
      started.send(handle, { ...usage, usedBytes: Math.round(usage.usedBytes) });
    await untilFilesystem(cluster, "absurd", "a hold", ({ status }) => status?.scaling?.plan === "hold");
    // What is told in order is heard in order: the first target is of the first reading that can be.
    started.send(handle, { sizeBytes: 4 * GIB, usedBytes: 3.5 * GIB });
    const after = await untilFilesystem(cluster, "absurd", "an extend", ({ spec }) => spec.target !== undefined);
    expect(after.metadata.generation).toBe((before.metadata.generation ?? 0) + 1);
    expect(after.spec.target).toMatchObject({ from: "4Gi", size: "5974Mi" });
  });

  it("asks for the trims of the policy, beside its targets, and for none once the policy is suspended or gone", async () => {
    await applyPolicy(cluster, "breathing", { ...BREATHING, trim: { every: "24h" } });
    const handle = await makeVolume(cluster, "trimmed", GIB);
    const started = await leader();
    started.send(handle, { sizeBytes: GIB, usedBytes: 500 * MIB });
    const until = (what: string, holds: (one: Filesystem) => boolean) =>
      untilFilesystem(cluster, "trimmed", what, holds);
    const asked = await until("its trims", ({ spec }) => spec.trim?.every === "24h");
    expect(asked.spec.target).toBeUndefined();
    started.send(handle, { sizeBytes: GIB, usedBytes: 850 * MIB });
    const extended = await until("an extend", ({ spec }) => spec.target !== undefined);
    expect(extended.spec.trim).toEqual({ every: "24h" });
    await applyPolicy(cluster, "breathing", { ...BREATHING, trim: { every: "12h" } });
    const changed = await until("the new trims", ({ spec }) => spec.trim?.every === "12h");
    expect(changed.spec.target).toEqual(extended.spec.target);
    const { generation } = changed.metadata;
    await started.decisions.engine.settled();
    started.decisions.decideAll();
    await started.decisions.engine.settled();
    expect((await until("being there", () => true)).metadata.generation).toBe(generation);
    await applyPolicy(cluster, "breathing", { ...BREATHING, trim: { every: "12h" }, suspend: true });
    await until("no trims", ({ spec }) => spec.trim === undefined);
    await applyPolicy(cluster, "breathing", { ...BREATHING, trim: { every: "12h" } });
    await until("trims again", ({ spec }) => spec.trim !== undefined);
    await cluster.client.delete("test/delete-policy", VOLUME_POLICIES, { namespace: "default", name: "breathing" });
    const left = await until("no trims", ({ spec }) => spec.trim === undefined);
    expect(left.spec.target).toEqual(extended.spec.target);
  });

  it.each([
    ["is deleted", "NoPolicy"],
    ["is suspended", "PolicySuspended"],
    ["is set to Recommend", "RecommendOnly"],
    ["has its window closed", "OutsideWindow"],
    ["has its claim paused", "Paused"],
  ])(
    "takes a shrink back that its node carries out, by a target of the present size, when the policy %s",
    async (what, reason) => {
      const name = what.replaceAll(" ", "-").toLowerCase();
      await applyPolicy(cluster, "breathing", BREATHING);
      const handle = await makeVolume(cluster, name, 4 * GIB);
      const started = await leader();
      const asked = await untilFilesystem(cluster, name, "a shrink", ({ spec }) => {
        started.send(handle, { sizeBytes: 4 * GIB, usedBytes: 200 * MIB });
        return spec.target !== undefined;
      });
      const { target: shrink } = asked.spec;
      const { decidedAt } = shrink ?? {};
      const operation = { kind: "Shrink", from: "4Gi", to: shrink?.size, epoch: shrink?.epoch, decidedAt };
      const begun = { operation: { ...operation, startedAt: new Date().toISOString(), step: "shrunk to 3Gi" } };
      await reportSize(cluster, handle, 3 * GIB, begun);
      const cycle = async (): Promise<void> => {
        await started.decisions.engine.settled();
        started.decisions.decideAll();
        await started.decisions.engine.settled();
      };
      await untilFilesystem(cluster, name, "a hold", ({ status }) => status?.scaling?.reason === "OperationInProgress");
      if (what === "is deleted")
        await cluster.client.delete("test/policy", VOLUME_POLICIES, { namespace: "default", name: "breathing" });
      else if (what === "is suspended") await applyPolicy(cluster, "breathing", { ...BREATHING, suspend: true });
      else if (what === "has its claim paused") await pause(name, inAnHour());
      else if (what === "has its window closed") {
        // Half a day from now.
        const windows = [{ cron: `0 ${(new Date().getUTCHours() + 12) % 24} * * *`, duration: "1h" }];
        const shrink = { ...BREATHING.behavior.shrink, windows };
        await applyPolicy(cluster, "breathing", { ...BREATHING, behavior: { ...BREATHING.behavior, shrink } });
      } else
        await applyPolicy(cluster, "breathing", { ...BREATHING, mode: { extend: "Enforce", shrink: "Recommend" } });
      const stopped = await untilFilesystem(
        cluster,
        name,
        "the stop",
        ({ spec }) => spec.target?.decidedAt !== decidedAt,
      );
      expect(stopped.spec.target).toMatchObject({ size: "3Gi", from: "3Gi", epoch: shrink?.epoch });
      await untilFilesystem(cluster, name, "why", ({ status }) => status?.scaling?.reason === reason);
      // However often it is asked until the node has ended it, it is written once.
      for (let i = 0; i < 3; i += 1) await cycle();
      const later = await cluster.client.get(FILESYSTEMS, { namespace: "default", name });
      expect(later?.metadata.generation).toBe(stopped.metadata.generation);
    },
  );

  it("has one leader of two, and the API server refuses what a deposed one writes late", async () => {
    await applyPolicy(cluster, "breathing", BREATHING);
    const handle = await makeVolume(cluster, "two", GIB);
    const first = await leader();
    const second = await engine();
    first.send(handle, { sizeBytes: GIB, usedBytes: 850 * MIB });
    second.send(handle, { sizeBytes: GIB, usedBytes: 850 * MIB });
    const before = await untilFilesystem(cluster, "two", "an extend", ({ spec }) => spec.target !== undefined);
    expect(second.leadership.isLeader()).toBe(false);
    const epoch = before.spec.target?.epoch ?? 0;
    const target = { ...UNLIMITED, sizeBytes: 2 * GIB, fromBytes: GIB, decidedAt: new Date().toISOString() };
    await applyTarget(cluster.client, before, { ...target, epoch: epoch + 1 }, undefined);
    await expect(
      applyTarget(cluster.client, before, { ...target, sizeBytes: 9 * GIB, epoch }, undefined),
    ).rejects.toMatchObject({
      reason: "Invalid",
    });
    const after = await cluster.client.get(FILESYSTEMS, { namespace: "default", name: "two" });
    expect(after?.spec.target?.size).toBe("2Gi");
  });

  it("puts the present size in the place of a deposed leader's target that was refused, where it wants no other", async () => {
    await applyPolicy(cluster, "breathing", BREATHING);
    const handle = await makeVolume(cluster, "overtaken", GIB);
    const filesystem = await untilFilesystem(cluster, "overtaken", "being there", () => true);
    const late = { ...UNLIMITED, sizeBytes: 3 * GIB, fromBytes: GIB, epoch: 1, decidedAt: new Date().toISOString() };
    await applyTarget(cluster.client, filesystem, late, undefined);
    await sayStalled(cluster, "overtaken", "StaleEpoch");
    await reportSize(cluster, handle, GIB, { epoch: 2 });
    const started = await leader();
    started.send(handle, { sizeBytes: GIB, usedBytes: 500 * MIB });
    const { spec } = await untilFilesystem(
      cluster,
      "overtaken",
      "another target",
      (one) => (one.spec.target?.epoch ?? 0) > 2,
    );
    expect(spec.target).toMatchObject({ size: "1Gi", from: "1Gi" });
  });

  it("leaves a former leader's target that nobody refuses: it is on its way", async () => {
    await applyPolicy(cluster, "breathing", BREATHING);
    const handle = await makeVolume(cluster, "succeeded", GIB);
    const filesystem = await untilFilesystem(cluster, "succeeded", "being there", () => true);
    const former = { ...UNLIMITED, sizeBytes: 3 * GIB, fromBytes: GIB, epoch: 1, decidedAt: new Date().toISOString() };
    await applyTarget(cluster.client, filesystem, former, undefined);
    const started = await leader();
    started.send(handle, { sizeBytes: GIB, usedBytes: 500 * MIB });
    const { spec } = await untilFilesystem(
      cluster,
      "succeeded",
      "the leader's word",
      (one) => one.status?.scaling?.reason !== undefined,
    );
    expect(spec.target).toMatchObject({ size: "3Gi", epoch: 1 });
  });

  it("takes a higher epoch than any that is recorded, also after every Lease is gone", async () => {
    const handle = await makeVolume(cluster, "epochs", GIB);
    await reportSize(cluster, handle, GIB, { epoch: 41 });
    const started = await leader();
    expect(started.leadership.epoch()).toBeGreaterThan(41);
  });

  it("leads anew under a higher epoch when agents know one above its own, as after a restore from a backup", async () => {
    await applyPolicy(cluster, "breathing", BREATHING);
    const handle = await makeVolume(cluster, "restored", GIB);
    const started = await leader();
    const known = (started.leadership.epoch() ?? 0) + 40;
    await reportSize(cluster, handle, GIB, { epoch: known });
    await waitFor("a higher epoch", () => ((started.leadership.epoch() ?? 0) > known ? true : undefined));
    started.send(handle, { sizeBytes: GIB, usedBytes: 850 * MIB });
    const { spec } = await untilFilesystem(cluster, "restored", "an extend", (one) => one.spec.target !== undefined);
    expect(spec.target?.epoch).toBeGreaterThan(known);
  });

  it("hears again of a volume whose node's clock was far ahead and was set back", async () => {
    await applyPolicy(cluster, "breathing", BREATHING);
    const handle = await makeVolume(cluster, "set-back", GIB);
    const started = await leader();
    started.send(handle, { sizeBytes: GIB, usedBytes: 500 * MIB, sampledAtMs: Date.now() + 3_600_000 });
    started.send(handle, { sizeBytes: GIB, usedBytes: 850 * MIB });
    await untilFilesystem(cluster, "set-back", "an extend", ({ spec }) => spec.target !== undefined);
  });

  it.each([
    ["an-hour-ahead", 3_600_000, "is 1h ahead of"],
    ["a-day-behind", -86_400_000, "is 1d behind"],
  ])("grants, extends and warns of a node whose clock is %s", async (name, aheadMs, difference) => {
    await applyPolicy(cluster, "breathing", BREATHING);
    const handle = await makeVolume(cluster, name, GIB);
    let passedMs = 0;
    const clock = { nowMs: systemClock.nowMs, monotonicMs: () => systemClock.monotonicMs() + passedMs };
    const started = await startEngine(cluster, [], clock);
    engines.push(started);
    await waitFor("leadership", () => (started.leadership.isLeader() ? true : undefined));
    const send = (usedBytes: number): void =>
      started.send(handle, { sizeBytes: GIB, usedBytes, sampledAtMs: Date.now() + aheadMs });
    send(300 * MIB);
    await waitFor("a grant", async () => (await layoutOf(cluster, handle))?.spec.emergency);
    passedMs = 11_000;
    send(850 * MIB);
    await untilFilesystem(cluster, name, "an extend", ({ spec }) => spec.target !== undefined);
    const warning = await waitFor("the warning", async () => {
      const { items } = await cluster.client.list(EVENTS, { namespace: "default" });
      return items.find(({ reason, message }) => reason === "ClockDiffers" && message?.includes(difference));
    });
    expect(warning).toMatchObject({ type: "Warning", involvedObject: { kind: "NodeStorage", name: "node-1" } });
    expect(warning.message).toContain("Set the clock of the node right");
  });

  it("decides after the target that stands, though its own clock is behind that of who decided it", async () => {
    await applyPolicy(cluster, "breathing", BREATHING);
    const handle = await makeVolume(cluster, "behind", GIB);
    const started = await leader();
    const filesystem = await untilFilesystem(cluster, "behind", "being there", () => true);
    const decidedAt = new Date(Date.now() + 3_600_000).toISOString();
    const standing = { ...UNLIMITED, sizeBytes: GIB, fromBytes: GIB, epoch: 1, decidedAt };
    await applyTarget(cluster.client, filesystem, standing, undefined);
    await waitFor("an extend", async () => {
      started.send(handle, { sizeBytes: GIB, usedBytes: 850 * MIB });
      const { spec } = await untilFilesystem(cluster, "behind", "being there", () => true);
      return Date.parse(spec.target?.decidedAt ?? "") > Date.parse(decidedAt) ? true : undefined;
    });
  });

  it("believes of a volume only the agent of its own node", async () => {
    await applyPolicy(cluster, "breathing", BREATHING);
    const [elsewhere, own] = [await makeVolume(cluster, "elsewhere", GIB), await makeVolume(cluster, "own", GIB)];
    const moved = { spec: { nodeName: "node-2" } };
    await cluster.client.mergePatch("test/move", FILESYSTEM_LAYOUTS, { name: elsewhere }, moved);
    const started = await leader();
    started.send(elsewhere, { sizeBytes: GIB, usedBytes: 850 * MIB });
    started.send(own, { sizeBytes: GIB, usedBytes: 850 * MIB });
    await untilFilesystem(cluster, "own", "an extend", ({ spec }) => spec.target !== undefined);
    const unreported = await cluster.client.get(FILESYSTEMS, { namespace: "default", name: "elsewhere" });
    expect(unreported?.spec.target).toBeUndefined();
  });

  it("is not kept from leading by an epoch that no leader can have written", async () => {
    await applyPolicy(cluster, "breathing", BREATHING);
    const [poisoned, sound] = [await makeVolume(cluster, "poisoned", GIB), await makeVolume(cluster, "sound", GIB)];
    await expect(reportSize(cluster, poisoned, GIB, { epoch: EPOCH_MAX + 1 })).rejects.toThrow("epoch");
    await reportSize(cluster, poisoned, GIB, { epoch: EPOCH_MAX });
    const first = await leader();
    await first.stop();
    engines = [];
    const started = await leader();
    started.send(sound, { sizeBytes: GIB, usedBytes: 850 * MIB });
    await untilFilesystem(cluster, "sound", "an extend", ({ spec }) => spec.target !== undefined);
  });
});
