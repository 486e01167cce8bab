// Approvals on the API server, and the policy-engine that acts by them.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { SCALING_APPROVALS, type ScalingApproval } from "../../../src/contracts/kinds/scaling-approval.ts";
import { GIB, MIB } from "../../../src/contracts/quantities/quantity.ts";
import { waitFor } from "../../harness/wait-for.ts";
import {
  applyPolicy,
  type Cluster,
  type EngineUnderTest,
  makeVolume,
  reportSize,
  startCluster,
  startEngine,
  untilFilesystem,
} from "./engine-under-test.ts";

const ASKING = {
  limits: { min: "1Gi", max: "10Gi", minAvailable: "64Mi" },
  mode: { extend: "Approve" as const, shrink: "Approve" as const },
  rules: [
    { name: "extend-at-80", action: "Extend" as const, when: "volume.usedRatio >= 0.8", targetUsed: "60%" },
    { name: "shrink-below-30", action: "Shrink" as const, when: "volume.usedRatioMax('2s') < 0.3", targetUsed: "50%" },
  ],
  behavior: { extend: { minStep: "256Mi" }, shrink: { stabilization: "0s", cooldown: "1s", minStep: "256Mi" } },
};
const NOT_AFTER = "2099-01-01T00:00:00Z";

let cluster: Cluster;
let engines: EngineUnderTest[] = [];

beforeAll(async () => {
  cluster = await startCluster();
});
afterEach(async () => {
  for (const started of engines) await started.stop();
  engines = [];
});
afterAll(() => cluster.stop());

const leader = async (): Promise<EngineUnderTest> => {
  const started = await startEngine(cluster);
  engines.push(started);
  await waitFor("leadership", () => (started.leadership.isLeader() ? true : undefined));
  return started;
};
const approve = (name: string, spec: object): Promise<ScalingApproval> =>
  cluster.client.apply(
    "test/approval",
    SCALING_APPROVALS,
    { apiVersion: "tidemark.dev/v1alpha1", kind: "ScalingApproval", metadata: { namespace: "default", name }, spec },
    { fieldManager: "test", force: true },
  );
const untilSaid = (name: string, type: string, reason: string) =>
  waitFor(`${reason} on approval ${name}`, async () => {
    const approval = await cluster.client.get(SCALING_APPROVALS, { namespace: "default", name });
    return approval?.status?.conditions?.find((one) => one.type === type && one.reason === reason);
  });

describe("the API server", () => {
  const extend = { claims: ["data"], action: "Extend", notAbove: "20Gi", notAfter: NOT_AFTER };
  it.each<[string, object, RegExp]>([
    ["neither claims nor a selector", { ...extend, claims: undefined }, /exactly one of claims and selector/],
    ["both claims and a selector", { ...extend, selector: {} }, /exactly one of claims and selector/],
    ["no claim in its list", { ...extend, claims: [] }, /claims/],
    ["no bound", { ...extend, notAbove: undefined }, /notAbove for action Extend/],
    ["the bound of the other action", { ...extend, notBelow: "1Gi" }, /does not fit the action/],
    ["a shrink's bound above", { ...extend, action: "Shrink" }, /notBelow for action Shrink/],
    ["a size of nothing", { ...extend, notAbove: "0" }, /0 is not a size/],
    ["no end", { ...extend, notAfter: undefined }, /notAfter/],
    ["an end that is no time", { ...extend, notAfter: "tomorrow" }, /notAfter/],
  ])("refuses an approval with %s", async (_what, spec, message) => {
    await expect(approve("tried", spec)).rejects.toThrow(message);
  });

  it("takes one of a selector, and one of a shrink", async () => {
    await approve("taken", { ...extend, claims: undefined, selector: { matchLabels: { tier: "none" } } });
    await approve("shrinks", { claims: ["none"], action: "Shrink", notBelow: "1Gi", notAfter: NOT_AFTER });
  });
});

describe("the policy-engine, in mode Approve", () => {
  it("shows an extend, says which approval is too narrow, and extends once one covers it", async () => {
    await applyPolicy(cluster, "asking", ASKING);
    const handle = await makeVolume(cluster, "waiting", GIB);
    const started = await leader();
    const send = () => started.send(handle, { sizeBytes: GIB, usedBytes: 850 * MIB });
    send();
    const held = await untilFilesystem(
      cluster,
      "waiting",
      "a hold",
      ({ status }) => status?.scaling?.reason === "ApprovalRequired",
    );
    expect(held.status?.scaling).toMatchObject({ preview: "extend from 1Gi to 1.38Gi" });
    expect(held.spec.target).toBeUndefined();

    await approve("growth", { claims: ["waiting"], action: "Extend", notAbove: "1200Mi", notAfter: NOT_AFTER });
    send();
    const narrow = await untilSaid("growth", "TooNarrow", "TooNarrow");
    expect(narrow.message).toContain("set notAbove: 2Gi");
    await untilSaid("growth", "InUse", "Unused");

    await approve("growth", { claims: ["waiting"], action: "Extend", notAbove: "2Gi", notAfter: NOT_AFTER });
    const extended = await untilFilesystem(cluster, "waiting", "an extend", ({ spec }) => {
      send();
      return spec.target !== undefined;
    });
    expect(extended.spec.target).toMatchObject({
      size: "1417Mi",
      message: expect.stringContaining("approved by growth"),
    });
    expect((await untilSaid("growth", "InUse", "InUse")).message).toContain("an extend of claim waiting to 1.38Gi");
  });

  it("says of an approval that it has ended when it does", async () => {
    await leader();
    const notAfter = new Date(Date.now() + 3000).toISOString();
    await approve("short", { claims: ["none"], action: "Extend", notAbove: "2Gi", notAfter });
    await untilSaid("short", "InUse", "Expired");
  });

  it("ends a shrink that runs after its step when its approval is taken back", async () => {
    await applyPolicy(cluster, "asking", ASKING);
    const handle = await makeVolume(cluster, "emptied", 4 * GIB);
    const started = await leader();
    const send = () => started.send(handle, { sizeBytes: 4 * GIB, usedBytes: 300 * MIB });
    const name = { namespace: "default", name: "less" };
    await approve("less", { claims: ["emptied"], action: "Shrink", notBelow: "1Gi", notAfter: NOT_AFTER });
    const shrunk = await untilFilesystem(cluster, "emptied", "a shrink", ({ spec }) => {
      send();
      return spec.target !== undefined;
    });
    const decidedAt = shrunk.spec.target?.decidedAt ?? "";
    const sizes = { from: "4Gi", to: shrunk.spec.target?.size, epoch: shrunk.spec.target?.epoch };
    const operation = { kind: "Shrink", ...sizes, decidedAt, startedAt: decidedAt, step: "resizing" };
    await reportSize(cluster, handle, 4 * GIB, { operation });
    await cluster.client.delete("test/approval", SCALING_APPROVALS, name);
    const stopped = await untilFilesystem(
      cluster,
      "emptied",
      "the present size",
      ({ spec }) => spec.target?.decidedAt !== decidedAt,
    );
    expect(stopped.spec.target).toMatchObject({ size: "4Gi", from: "4Gi" });
  });
});
