// The operator and a span's spare member: ordered, taken in, made anew, and done without where it cannot be had.
import { afterAll, beforeAll, beforeEach, expect, it } from "@jest/globals";
import type { FilesystemLayout, FilesystemLayoutStatus } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { CSI_NODES, RESOURCE_QUOTAS } from "../../../src/contracts/kubernetes/resources.ts";
import { MEMBER_ROUNDED_ANNOTATION } from "../../../src/contracts/names.ts";
import { createMemberNode, MEMBER_CLASS } from "../../fakes/member-sidecars.ts";
import { memberStates } from "../../harness/member-states.ts";
import type { TestCluster } from "./cluster.ts";
import { type SpanCluster, startSpanCluster } from "./span-cluster.ts";
import { isAttached, type SpanUnderTest } from "./span-under-test.ts";

let tested: SpanCluster;
let cluster: TestCluster;
let span: SpanUnderTest;

beforeAll(async () => {
  tested = await startSpanCluster();
  ({ cluster, span } = tested);
});
afterAll(() => tested.stop());
beforeEach(() => {
  tested.sidecars.resume();
});

type Reported = NonNullable<FilesystemLayoutStatus["members"]>[number];
const has =
  (...expected: string[]) =>
  (layout: FilesystemLayout) =>
    memberStates(layout.spec.members).join() === expected.join();
const mounted = (...states: [name: string, size: string, state?: Reported["state"]][]): FilesystemLayoutStatus => ({
  nodeName: "node-a",
  mounted: true,
  members: states.map(([name, size, state = "Present"]) => ({ name, size, state })),
});
const untilLacking = (claim: string, text: string) =>
  span.untilCondition(
    `why there is no spare: ${text}`,
    claim,
    "Reconciling",
    ({ status, reason, message }) => status === "False" && reason === "SpareMissing" && message.includes(text),
  );

async function limitMembers(storage: string): Promise<void> {
  const key = `${MEMBER_CLASS}.storageclass.storage.k8s.io/requests.storage`;
  await cluster.client.create("test/quota", RESOURCE_QUOTAS, {
    apiVersion: "v1",
    kind: "ResourceQuota",
    metadata: { namespace: "shop", name: "members" },
    spec: { hard: { [key]: storage } },
  });
}

/** Mounted on node-a with a first member of 2Gi, and up to 3Gi granted. */
async function inUse(size = "3Gi", maxMembers = "3"): Promise<{ handle: string; claim: string }> {
  const volume = await span.created({ spareMembers: "1", maxMembers });
  await span.publish(volume.handle, "node-a");
  await span.untilLayout("m0 is attached", volume.handle, isAttached("m0"));
  await span.grant(volume.handle, size);
  await span.report(volume.handle, mounted(["m0", "2Gi"]));
  return volume;
}

it("a spare is made, bound and attached where the volume is, once an emergency is granted", async () => {
  const { handle, claim } = await span.created({ spareMembers: "1" });
  await span.publish(handle, "node-a");
  await span.report(handle, mounted(["m0", "2Gi"]));
  await untilLacking(claim, "no policy grants it an emergency extend");
  await span.grant(handle, "3500Mi");
  const layout = await span.untilLayout("the spare", handle, isAttached("m1"));
  expect(memberStates(layout.spec.members)).toEqual(["m0 2Gi Present", "m1 1Gi Spare"]);
  expect(layout.spec.target).toBeUndefined();
  expect(await span.claims(handle)).toEqual([`${handle}-m0`, `${handle}-m1`]);
});

it("a spare that its node has ready is taken in by a target, and another one is made", async () => {
  const { handle, claim } = await inUse();
  await span.untilLayout("the spare", handle, isAttached("m1"));
  await span.report(handle, mounted(["m0", "2Gi"], ["m1", "1Gi", "Spare"]));
  await span.target(claim, "2500Mi", "2Gi");
  await span.untilLayout("m1 to be a member", handle, has("m0 2Gi Present", "m1 1Gi Present"));
  await span.grant(handle, "5Gi");
  await span.report(handle, mounted(["m0", "2Gi"], ["m1", "1Gi"]));
  await span.untilLayout("the next spare", handle, has("m0 2Gi Present", "m1 1Gi Present", "m2 2Gi Spare"));
});

it("a spare that an emergency took in is a member, and nothing is made in the last place", async () => {
  const { handle, claim } = await inUse("3Gi", "2");
  await span.untilLayout("the spare", handle, isAttached("m1"));
  await span.report(handle, mounted(["m0", "2Gi"], ["m1", "1Gi"]));
  await span.untilLayout("m1 to be a member", handle, has("m0 2Gi Present", "m1 1Gi Present"));
  await untilLacking(claim, "2 members of at most 2 are there");
});

it("a spare that is too large by now goes as a member does, and a smaller one is made", async () => {
  const { handle } = await inUse("5Gi");
  await span.untilLayout("the spare", handle, isAttached("m1"));
  await span.report(handle, mounted(["m0", "2Gi"], ["m1", "3Gi", "Spare"]));
  await span.grant(handle, "3Gi");
  await span.untilLayout("the spare to leave", handle, has("m0 2Gi Present", "m1 3Gi Removed"));
  expect(await span.claims(handle)).toEqual([`${handle}-m0`, `${handle}-m1`]);
  await span.report(handle, mounted(["m0", "2Gi"], ["m1", "3Gi", "Removed"]));
  await span.untilLayout("a smaller one", handle, has("m0 2Gi Present", "m2 1Gi Spare"));
  expect(await span.claims(handle)).not.toContain(`${handle}-m1`);
});

it("no spare is made beyond a quota, and none attached where there is no slot; the volume goes on", async () => {
  await limitMembers("1Mi");
  const volume = await span.created({ spareMembers: "1" }).catch((error: unknown) => String(error));
  expect(volume).toContain("QuotaExceeded");
  await cluster.client.delete("test/quota", RESOURCE_QUOTAS, { namespace: "shop", name: "members" });
  const { handle, claim } = await span.created({ spareMembers: "1" });
  await limitMembers("3Gi");
  await span.publish(handle, "node-b");
  await span.grant(handle, "9Gi");
  await span.report(handle, { ...mounted(["m0", "2Gi"]), nodeName: "node-b" });
  await untilLacking(claim, "ResourceQuota members allows 3Gi");
  expect(await span.claims(handle)).toEqual([`${handle}-m0`]);
  const used = (await span.attachments()).filter(({ spec }) => spec.nodeName === "node-b").length;
  await createMemberNode(cluster.client, "node-b", used);
  // Only now: between the two there would be room for one.
  await cluster.client.delete("test/quota", RESOURCE_QUOTAS, { namespace: "shop", name: "members" });
  // Something changes, as it does with every sample that moves a size.
  await span.grant(handle, "8Gi");
  await untilLacking(claim, `attaches at most ${used} volumes to node node-b`);
  expect(await span.claims(handle)).toEqual([`${handle}-m0`]);
  await cluster.client.delete("test/csi-node", CSI_NODES, { name: "node-b" });
});

it("a volume is published without its spare where there is no slot for that", async () => {
  const { handle, claim } = await inUse();
  await span.untilLayout("the spare", handle, isAttached("m1"));
  await span.report(handle, { ...mounted(["m0", "2Gi"], ["m1", "1Gi", "Spare"]), mounted: false });
  await span.unpublish(handle, "node-a");
  expect((await span.attachments()).filter(({ spec }) => spec.source.persistentVolumeName?.includes(handle))).toEqual(
    [],
  );
  const used = (await span.attachments()).filter(({ spec }) => spec.nodeName === "node-b").length;
  await createMemberNode(cluster.client, "node-b", used + 1);
  await span.publish(handle, "node-b");
  await span.untilLayout("m0 is attached", handle, isAttached("m0"));
  await span.report(handle, { ...mounted(["m0", "2Gi"]), nodeName: "node-b" });
  await untilLacking(claim, `attaches at most ${used + 1} volumes to node node-b`);
  expect((await span.layout(handle))?.spec.members?.[1]?.source.claim?.attachment).toBeUndefined();
  await cluster.client.delete("test/csi-node", CSI_NODES, { name: "node-b" });
});

it("a spare goes with its volume", async () => {
  const { handle } = await inUse();
  await span.untilLayout("the spare", handle, isAttached("m1"));
  await span.report(handle, { ...mounted(["m0", "2Gi"], ["m1", "1Gi", "Spare"]), mounted: false });
  await span.unpublish(handle, "node-a");
  await span.remove(handle);
  expect(await span.claims(handle)).toEqual([]);
  expect(await span.layout(handle)).toBeUndefined();
});

// The last one: it is remembered for the class that all of them use.
it("a spare that its driver makes too large goes, and for an hour none is made of which so much is expected", async () => {
  const { handle, claim } = await inUse();
  await span.untilLayout("the spare", handle, isAttached("m1"));
  await span.report(handle, mounted(["m0", "2Gi"], ["m1", "2Gi", "Spare"]));
  const left = await span.untilLayout("the spare to leave", handle, has("m0 2Gi Present", "m1 1Gi Removed"));
  expect(left.metadata.annotations?.[MEMBER_ROUNDED_ANNOTATION]).toMatch(/ 1Gi 2Gi$/);
  await span.report(handle, mounted(["m0", "2Gi"], ["m1", "2Gi", "Removed"]));
  await untilLacking(claim, "has lately made members of 2Gi or more where 1Gi were asked for");
  expect(await span.claims(handle)).toEqual([`${handle}-m0`]);
  // So much an emergency may take.
  await span.grant(handle, "5Gi");
  await span.untilLayout("a larger one", handle, has("m0 2Gi Present", "m2 3Gi Spare"));
});
