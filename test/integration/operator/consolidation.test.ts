// Members that are merged for a pod which lacks attach slots, as its parts see it: the operator says who waits, the policy-engine's target
// comes, one member grows, and the others leave.
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { type ConsolidationNeed, FILESYSTEMS } from "../../../src/contracts/kinds/filesystem.ts";
import {
  FILESYSTEM_LAYOUTS,
  type FilesystemLayout,
  type FilesystemLayoutStatus,
  type LastOperation,
} from "../../../src/contracts/kinds/filesystem-layout.ts";
import {
  CSI_NODES,
  EVENTS,
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  PODS,
  type PodVolume,
  STORAGE_CLASSES,
} from "../../../src/contracts/kubernetes/resources.ts";
import { API_VERSION, FIELD_MANAGERS, GROWTH_FAILED_ANNOTATION, SPAN_DRIVER } from "../../../src/contracts/names.ts";
import { parseQuantity } from "../../../src/contracts/quantities/quantity.ts";
import { buildClaim } from "../../builders/claim.ts";
import { createMemberNode, MEMBER_CLASS, MEMBER_DRIVER } from "../../fakes/member-sidecars.ts";
import { memberStates } from "../../harness/member-states.ts";
import { untilRead } from "../../harness/wait-for.ts";
import { type SpanCluster, startSpanCluster } from "./span-cluster.ts";
import { isAttached, type SpanUnderTest } from "./span-under-test.ts";

const SLOTS = 6;
const NODE = "node-a";
const DECIDED_MS = Date.parse("2031-01-01T00:00:00Z");
let tested: SpanCluster;
let span: SpanUnderTest;
let decisions = 0;

beforeAll(async () => {
  tested = await startSpanCluster();
  ({ span } = tested);
  await createMemberNode(tested.cluster.client, NODE, SLOTS);
});
afterAll(() => tested.stop());

interface Wide {
  readonly handle: string;
  readonly claim: string;
}

const members = ({ spec }: FilesystemLayout): string => memberStates(spec.members).join(", ");

function mounted(
  sizes: Record<string, string>,
  lastOperation?: LastOperation,
  out: string[] = [],
): FilesystemLayoutStatus {
  const reported = Object.entries(sizes).map(([name, size]) => {
    const state = out.includes(name) ? ("Removed" as const) : ("Present" as const);
    return { name, size, state };
  });
  return { nodeName: NODE, mounted: true, members: reported, ...(lastOperation && { lastOperation }) };
}

function ended({ spec: { target } }: FilesystemLayout, outcome: LastOperation["outcome"] = "Succeeded"): LastOperation {
  if (target === undefined) throw new Error("no target");
  const { size, from, epoch, decidedAt } = target;
  const kind = parseQuantity(size) > parseQuantity(from) ? "Extend" : "Shrink";
  return { kind, from, to: size, epoch, decidedAt, startedAt: decidedAt, endedAt: decidedAt, outcome, reached: size };
}

async function expandsMembers(allowVolumeExpansion: boolean): Promise<void> {
  const name = { name: MEMBER_CLASS };
  await tested.cluster.client.mergePatch("test/expansion", STORAGE_CLASSES, name, { allowVolumeExpansion });
}

/** Of three members of 2Gi, made while none could grow. */
async function wide(): Promise<Wide> {
  await expandsMembers(false);
  const { handle, claim } = await span.created();
  await span.publish(handle, NODE);
  await span.untilLayout("m0 is attached", handle, isAttached("m0"));
  const sizes: Record<string, string> = { m0: "2Gi" };
  await span.report(handle, mounted(sizes));
  for (const [name, from, size] of [
    ["m1", "2Gi", "4Gi"],
    ["m2", "4Gi", "6Gi"],
  ] as const) {
    await span.target(claim, size, from);
    const layout = await span.untilLayout(`${name} is attached`, handle, isAttached(name));
    sizes[name] = "2Gi";
    await span.report(handle, mounted(sizes, ended(layout)));
  }
  await expandsMembers(true);
  return { handle, claim };
}

const PLACED = { status: "True", message: "" };

function ordinaryClaim(name: string): Promise<PodVolume> {
  return claimOf(name, { driver: MEMBER_DRIVER, volumeHandle: `device-of-${name}` });
}

async function claimOf(name: string, csi: { driver: string; volumeHandle: string }): Promise<PodVolume> {
  const { client } = tested.cluster;
  await client.create("test/volume", PERSISTENT_VOLUMES, {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name },
    spec: { csi, capacity: { storage: "10Gi" }, accessModes: ["ReadWriteOnce"] },
  });
  const claim = buildClaim({ namespace: "shop", name, spec: { volumeName: name } });
  await client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, claim);
  return { name, persistentVolumeClaim: { claimName: name } };
}

/** With ordinary volumes of the members' driver, for long; `nodeName` undefined: the scheduler has none for it. */
async function waitingPod(
  name: string,
  nodeName: string | undefined,
  said: object = PLACED,
  claims: readonly string[] = [name],
  existing?: string,
): Promise<void> {
  const { client } = tested.cluster;
  const metadata = { namespace: "shop", name };
  const volumes: PodVolume[] = [];
  for (const each of claims) volumes.push(await ordinaryClaim(each));
  if (existing !== undefined) volumes.push({ name: "data", persistentVolumeClaim: { claimName: existing } });
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata,
    spec: { ...(nodeName && { nodeName }), containers: [{ name: "main", image: "none" }], volumes },
  };
  await client.create("test/pod", PODS, pod);
  const lastTransitionTime = new Date(Date.now() - 3_600_000).toISOString();
  const condition = { type: "PodScheduled", reason: "", lastTransitionTime, ...said };
  await client.mergePatch(
    "test/pod",
    PODS,
    metadata,
    { status: { phase: "Pending", conditions: [condition] } },
    "status",
  );
}

const needOf = async (claim: string): Promise<ConsolidationNeed | undefined> =>
  (await tested.cluster.client.get(FILESYSTEMS, { namespace: "shop", name: claim }))?.status?.consolidation;

const untilNeed = (claim: string, holds: (need: ConsolidationNeed | undefined) => boolean) =>
  untilRead(`what is wanted of ${claim}`, () => needOf(claim), holds);

/** As the policy-engine decides it. */
async function merge({ claim }: Wide, most: number, size = "6Gi", from = "6Gi"): Promise<void> {
  decisions += 1;
  const decidedAt = new Date(DECIDED_MS + decisions * 1000).toISOString();
  const target = { size, from, epoch: 1, decidedAt, members: most };
  const metadata = { namespace: "shop", name: claim };
  const filesystem = { apiVersion: API_VERSION, kind: "Filesystem", metadata, spec: { target } };
  await tested.cluster.client.apply("test/merge", FILESYSTEMS, filesystem, {
    fieldManager: FIELD_MANAGERS.policyEngine,
  });
}

async function setSlots(count: number): Promise<void> {
  const drivers = [{ name: MEMBER_DRIVER, nodeID: NODE, allocatable: { count } }];
  await tested.cluster.client.mergePatch("test/slots", CSI_NODES, { name: NODE }, { spec: { drivers } });
}

async function eventsOf(name: string): Promise<string[]> {
  const { items } = await tested.cluster.client.list(EVENTS, { namespace: "shop" });
  return items.filter(({ involvedObject }) => involvedObject.name === name).map(({ reason }) => reason ?? "");
}

it("one member grows, the others leave; one filesystem of a node at a time, and none for a pod that waits no more", async () => {
  // Its caches show the same, and it says nothing.
  const stopSecond = await tested.cluster.startAnotherOperator();
  const one = await wide();
  const two = await wide();
  expect((await span.attachments()).length).toBe(SLOTS);
  await waitingPod("late", NODE);
  for (const { claim } of [one, two])
    expect(await untilNeed(claim, (need) => need !== undefined)).toMatchObject({
      pod: "shop/late",
      node: NODE,
      members: 2,
      growth: "2Gi",
    });

  await merge(one, 2);
  const growing = await span.untilLayout("m0 to grow", one.handle, ({ spec }) => spec.target?.size === "8Gi");
  expect(members(growing)).toBe("m0 4Gi Present, m1 2Gi Present, m2 2Gi Present");
  // The other one is allowed as well, and waits for its turn.
  await merge(two, 2);
  await span.untilCondition("its turn", two.claim, "Reconciling", ({ message }) =>
    message.includes("on one node at a time"),
  );
  expect(members((await span.layout(two.handle)) as FilesystemLayout)).toBe(
    "m0 2Gi Present, m1 2Gi Present, m2 2Gi Present",
  );

  const grown = { m0: "4Gi", m1: "2Gi", m2: "2Gi" };
  await span.report(one.handle, mounted(grown, ended(growing)));
  const leaving = await span.untilLayout("m2 to leave", one.handle, ({ spec }) => spec.target?.size === "6Gi");
  expect(members(leaving)).toBe("m0 4Gi Present, m1 2Gi Present, m2 2Gi Removed");
  expect(leaving.spec.target).toMatchObject({ from: "8Gi" });
  await span.report(one.handle, mounted(grown, ended(leaving), ["m2"]));
  const after = await span.untilLayout("m2 to be gone", one.handle, ({ spec }) => spec.members?.length === 2);
  expect(members(after)).toBe("m0 4Gi Present, m1 2Gi Present");
  expect(await span.claims(one.handle)).toEqual([`${one.handle}-m0`, `${one.handle}-m1`]);

  // The slot is there: nobody needs the other one any more, and its target comes to nothing.
  const left = await span.untilLayout("the other one's target", two.handle, ({ spec }) => spec.target?.from === "6Gi");
  expect(left.spec.target?.size).toBe("6Gi");
  expect(members(left)).toBe("m0 2Gi Present, m1 2Gi Present, m2 2Gi Present");
  for (const { claim } of [one, two]) await untilNeed(claim, (need) => need === undefined);
  for (const about of ["late", one.claim])
    await untilRead(
      `Events of ${about}`,
      () => eventsOf(about),
      (events) => events.includes("AttachSlotsNeeded") && events.includes("ConsolidationSucceeded"),
    );
  await stopSecond();
  expect((await eventsOf(one.claim)).filter((reason) => reason === "ConsolidationSucceeded")).toHaveLength(1);
  const metrics = await fetch(`http://127.0.0.1:${tested.cluster.operatorHttpPort()}/metrics`);
  expect(await metrics.text()).toContain('tidemark_operator_consolidations_total{outcome="Succeeded"} 1');
});

it("an operator that is started between the steps goes on, and what found its floor is finished without growing again", async () => {
  const { client } = tested.cluster;
  await client.delete("test/pod", PODS, { namespace: "shop", name: "late" });
  const third = await wide();
  // The slots of the first test's filesystems, and of this one.
  const used = (await span.attachments()).length;
  await setSlots(used);
  const conditions = [
    { type: "Ready", status: "True", reason: "", message: "", lastTransitionTime: "2030-01-01T00:00:00Z" },
  ];
  await client.mergePatch("test/node", NODES, { name: NODE }, { status: { conditions } }, "status");
  const message = "0/1 nodes are available: 1 node(s) exceed max volume count.";
  await waitingPod("nowhere", undefined, { status: "False", message });
  expect(await untilNeed(third.claim, (need) => need !== undefined)).toMatchObject({ pod: "shop/nowhere", node: NODE });

  await merge(third, 2);
  const growing = await span.untilLayout("m0 to grow", third.handle, ({ spec }) => spec.target?.size === "8Gi");
  await tested.cluster.stopOperator();
  const grown = { m0: "4Gi", m1: "2Gi", m2: "2Gi" };
  await span.report(third.handle, mounted(grown, ended(growing)));
  await tested.cluster.startOperator();
  const leaving = await span.untilLayout("m2 to leave", third.handle, ({ spec }) => spec.target?.size === "6Gi");
  await span.report(third.handle, mounted(grown, ended(leaving, "FloorReached")));
  await span.untilLayout("m2 to stay", third.handle, (layout) => members(layout).endsWith("m2 2Gi Present"));

  // As the policy-engine does it: down to the size that there was.
  await merge(third, 2, "6Gi", "8Gi");
  const again = await span.untilLayout(
    "m2 to leave again",
    third.handle,
    ({ spec }) => spec.target?.decidedAt !== leaving.spec.target?.decidedAt,
  );
  expect(again.spec.target).toMatchObject({ size: "6Gi", from: "8Gi" });
  expect(members(again)).toBe("m0 4Gi Present, m1 2Gi Present, m2 2Gi Removed");
  await span.report(third.handle, mounted(grown, ended(again), ["m2"]));
  await span.untilLayout("m2 to be gone", third.handle, ({ spec }) => spec.members?.length === 2);
  await untilNeed(third.claim, (need) => need === undefined);
});

it("where members cannot grow, a larger one comes through a slot that is free, and goes again where nobody waits any more", async () => {
  const { client } = tested.cluster;
  await client.delete("test/pod", PODS, { namespace: "shop", name: "nowhere" });
  await setSlots(100);
  const [fourth, fifth] = [await wide(), await wide()];
  await expandsMembers(false);
  const used = (await span.attachments()).length;
  await setSlots(used);
  await waitingPod("two-volumes", NODE, PLACED, ["volume-one", "volume-two"]);
  const hindered = await untilNeed(fourth.claim, (need) => need !== undefined);
  expect(hindered?.obstacle).toContain("needs a free slot there first");
  await untilRead(
    "Events of the pod",
    () => eventsOf("two-volumes"),
    (events) => events.includes("AttachSlotsNeeded"),
  );

  // Decided all the same: it comes to nothing.
  await merge(fourth, 1);
  await span.untilLayout("the decision to be dropped", fourth.handle, ({ spec }) => spec.target?.from === "6Gi");
  expect(members((await span.layout(fourth.handle)) as FilesystemLayout)).toBe(
    "m0 2Gi Present, m1 2Gi Present, m2 2Gi Present",
  );

  await setSlots(used + 1);
  const need = await untilNeed(fourth.claim, (found) => found !== undefined && found.obstacle === undefined);
  expect(need).toMatchObject({ members: 2, growth: "4Gi" });
  await merge(fourth, 2);
  const ordered = await span.untilLayout("m3 to be attached", fourth.handle, isAttached("m3"));
  expect(members(ordered)).toBe("m0 2Gi Present, m1 2Gi Present, m2 2Gi Present, m3 4Gi Spare");
  expect((await span.attachments()).length).toBe(used + 1);
  // It takes its turn, too.
  await merge(fifth, 2);
  await span.untilCondition("its turn", fifth.claim, "Reconciling", ({ message }) =>
    message.includes("on one node at a time"),
  );
  await tested.cluster.stopOperator();
  const three = { m0: "2Gi", m1: "2Gi", m2: "2Gi" };
  const [present, ready] = [mounted(three), { name: "m3", size: "4Gi", state: "Spare" as const }];
  await span.report(fourth.handle, { ...present, members: [...(present.members ?? []), ready] });
  await tested.cluster.startOperator();
  const adding = await span.untilLayout("m3 to be a member", fourth.handle, ({ spec }) => spec.target?.size === "10Gi");
  expect(members(adding)).toBe("m0 2Gi Present, m1 2Gi Present, m2 2Gi Present, m3 4Gi Present");
  const four = { ...three, m3: "4Gi" };
  await span.report(fourth.handle, mounted(four, ended(adding)));
  const leaving = await span.untilLayout("two to leave", fourth.handle, ({ spec }) => spec.target?.from === "10Gi");
  expect(leaving.spec.target?.size).toBe("6Gi");
  expect(members(leaving)).toBe("m0 2Gi Present, m1 2Gi Removed, m2 2Gi Removed, m3 4Gi Present");
  await span.report(fourth.handle, mounted(four, ended(leaving), ["m1", "m2"]));
  const after = await span.untilLayout("them to be gone", fourth.handle, ({ spec }) => spec.members?.length === 2);
  expect(members(after)).toBe("m0 2Gi Present, m3 4Gi Present");
  expect(after.spec.members?.[1]).not.toHaveProperty("replaces");
  expect(await span.claims(fourth.handle)).toEqual([`${fourth.handle}-m0`, `${fourth.handle}-m3`]);
  expect(members((await span.layout(fifth.handle)) as FilesystemLayout)).toBe(
    "m0 2Gi Present, m1 2Gi Present, m2 2Gi Present",
  );
  expect((await span.attachments()).length).toBe(used - 1);
  await untilNeed(fifth.claim, (found) => found === undefined);
  await span.untilLayout("the other one's target", fifth.handle, ({ spec }) => spec.target?.size === spec.target?.from);

  // One more waits, and is gone before the larger member has come.
  tested.sidecars.binds = false;
  await setSlots(used);
  await waitingPod("three-volumes", NODE, PLACED, ["volume-three", "volume-four", "volume-five"]);
  await client.delete("test/pod", PODS, { namespace: "shop", name: "two-volumes" });
  await untilNeed(fifth.claim, (found) => found?.pod === "shop/three-volumes" && found.obstacle === undefined);
  await merge(fifth, 1);
  const coming = await span.untilLayout("m3 to be ordered", fifth.handle, ({ spec }) => spec.members?.length === 4);
  expect(members(coming)).toBe("m0 2Gi Present, m1 2Gi Present, m2 2Gi Present, m3 6Gi Spare");
  await client.delete("test/pod", PODS, { namespace: "shop", name: "three-volumes" });
  const back = await span.untilLayout("m3 to go", fifth.handle, ({ spec }) => spec.members?.length === 3);
  expect(members(back)).toBe("m0 2Gi Present, m1 2Gi Present, m2 2Gi Present");
  expect(back.spec.target).toMatchObject({ size: "6Gi", from: "6Gi" });
  expect(await span.claims(fifth.handle)).toEqual(["m0", "m1", "m2"].map((name) => `${fifth.handle}-${name}`));
  tested.sidecars.resume();
});

it("where a member did not grow and no slot is free, that is remembered at once, and growing is tried again after a pause", async () => {
  const { client } = tested.cluster;
  await setSlots(100);
  const { handle, claim } = await wide();
  await setSlots((await span.attachments()).length);
  await waitingPod("patient", NODE);
  await untilNeed(claim, (need) => need !== undefined && need.obstacle === undefined);
  await merge({ handle, claim }, 2);
  const growing = await span.untilLayout(
    "m0 to be expanded",
    handle,
    ({ spec }) => spec.members?.some(({ source }) => source.claim?.capacity === "4Gi") === true,
  );
  const inVain = { ...ended(growing, "Failed"), reason: "WaitingForMember" as const, reached: "6Gi" };
  await span.report(handle, mounted({ m0: "2Gi", m1: "2Gi", m2: "2Gi" }, inVain));
  const settled = await span.untilLayout("the failure to be remembered", handle, (layout) =>
    members(layout).startsWith("m0 2Gi"),
  );
  expect(members(settled)).toBe("m0 2Gi Present, m1 2Gi Present, m2 2Gi Present");
  expect(settled.metadata.annotations?.[GROWTH_FAILED_ANNOTATION]).toBeDefined();
  const waits = await untilNeed(claim, (need) => need?.obstacle !== undefined);
  expect(waits?.obstacle).toContain("did not grow in place (tried again at ");

  const longAgo = new Date(Date.now() - 5 * 60_000).toISOString();
  const annotations = { [GROWTH_FAILED_ANNOTATION]: longAgo };
  await client.mergePatch("test/annotation", FILESYSTEM_LAYOUTS, { name: handle }, { metadata: { annotations } });
  await untilNeed(claim, (need) => need !== undefined && need.obstacle === undefined);
  await merge({ handle, claim }, 2);
  const before = growing.spec.target?.decidedAt;
  const tried = await span.untilLayout("m0 to grow again", handle, ({ spec }) => spec.target?.decidedAt !== before);
  expect(tried.spec.target?.size).toBe("8Gi");
  expect(members(tried)).toBe("m0 4Gi Present, m1 2Gi Present, m2 2Gi Present");
  await client.delete("test/pod", PODS, { namespace: "shop", name: "patient" });
});

it("a filesystem of more members than any node has slots is Stalled while its pod waits, and both say why", async () => {
  await setSlots(100);
  const sixth = await wide();
  await span.report(sixth.handle, { ...mounted({ m0: "2Gi", m1: "2Gi", m2: "2Gi" }), mounted: false });
  await span.unpublish(sixth.handle, NODE);
  await setSlots(2);
  await claimOf("of-sixth", { driver: SPAN_DRIVER, volumeHandle: sixth.handle });
  await waitingPod("homeless", NODE, PLACED, [], "of-sixth");
  const stalled = await span.untilCondition(
    "it to be told",
    sixth.claim,
    "Stalled",
    ({ reason }) => reason === "InsufficientAttachSlots",
  );
  expect(stalled).toMatchObject({ status: "True", message: expect.stringContaining("needs 3 attach slots") });
  expect(stalled.message).toContain("has more than 2");
  for (const about of ["homeless", sixth.claim])
    await untilRead(
      `Events of ${about}`,
      () => eventsOf(about),
      (events) => events.includes("InsufficientAttachSlots"),
    );
  await setSlots(100);
  await span.untilCondition("a node to have them", sixth.claim, "Stalled", ({ status }) => status === "False");
});
