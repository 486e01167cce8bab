// The members' namespace is somebody else's: no member is placed there, none that is there goes, and all of it goes on by itself once the
// namespace is Tidemark's.
import { status } from "@grpc/grpc-js";
import { afterAll, afterEach, beforeAll, expect, it } from "@jest/globals";
import { FILESYSTEM_LAYOUTS } from "../../../src/contracts/kinds/filesystem-layout.ts";
import {
  NAMESPACES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
} from "../../../src/contracts/kubernetes/resources.ts";
import { MEMBER_NAMESPACE } from "../../../src/contracts/names.ts";
import { HOME_LABELS } from "../../../src/operator/decide/decide-home.ts";
import { createMemberClass } from "../../fakes/member-sidecars.ts";
import { persist } from "../../harness/crashing-operator.ts";
import { untilRead } from "../../harness/wait-for.ts";
import type { TestCluster } from "./cluster.ts";
import { provisionedSpan } from "./provisioned-span.ts";
import { type SpanCluster, startSpanCluster } from "./span-cluster.ts";
import { isAttached, type SpanUnderTest } from "./span-under-test.ts";

const LIMIT_MS = 120_000;
const REASON = /apply kustomize\/foundation: .* lacks the label pod-security.kubernetes.io\/enforce=restricted/;

let tested: SpanCluster;
let cluster: TestCluster;
let span: SpanUnderTest;

beforeAll(async () => {
  tested = await startSpanCluster();
  ({ cluster, span } = tested);
  await createMemberClass(cluster.client, "growing", true);
  // The operator makes it.
  await untilRead(
    "the namespace",
    () => cluster.client.get(NAMESPACES, { name: MEMBER_NAMESPACE }),
    (one) => one !== undefined,
  );
}, LIMIT_MS);
afterAll(() => tested.stop(), LIMIT_MS);
afterEach(() => labelled(HOME_LABELS));

/** As whoever has made it. */
const labelled = (labels: Readonly<Record<string, string>>) =>
  cluster.client.mergePatch("test/labels", NAMESPACES, { name: MEMBER_NAMESPACE }, { metadata: { labels } });
const isForeign = () => labelled({ "pod-security.kubernetes.io/enforce": "privileged" });

async function claimUIDs(handle: string): Promise<(string | undefined)[]> {
  const { items } = await cluster.client.list(PERSISTENT_VOLUME_CLAIMS, { namespace: MEMBER_NAMESPACE });
  return items.filter(({ metadata }) => metadata.name.startsWith(`${handle}-`)).map(({ metadata }) => metadata.uid);
}

const volumeOf = async (handle: string) => {
  const { items } = await cluster.client.list(PERSISTENT_VOLUMES);
  return items.find(({ spec }) => spec.claimRef?.name === `${handle}-m0`);
};

/** Mounted on node-a, with one member. */
async function inUse(name: string, parameters: Record<string, string> = {}): Promise<string> {
  const { handle } = await provisionedSpan(cluster, span, name, parameters);
  const members = [{ name: "m0", size: "2Gi", state: "Present" as const }];
  await span.report(handle, { nodeName: "node-a", mounted: true, members });
  return handle;
}

it("a new claim is refused with the reason, leaves nothing behind, and is had once the namespace is ours", async () => {
  await isForeign();
  const request = span.request();
  await expect(span.create(request)).rejects.toMatchObject({
    code: status.FAILED_PRECONDITION,
    details: expect.stringMatching(REASON),
  });
  expect((await cluster.client.list(FILESYSTEM_LAYOUTS)).items).toEqual([]);
  await labelled(HOME_LABELS);
  const { volume } = await span.create(request);
  expect(await claimUIDs(volume?.volumeId ?? "")).toHaveLength(1);
});

it("a claim that is asked for again has the member that it had", async () => {
  const request = span.request();
  const { volume } = await span.create(request);
  const before = await claimUIDs(volume?.volumeId ?? "");
  expect(before).toHaveLength(1);
  await isForeign();
  expect((await span.create(request)).volume?.volumeId).toBe(volume?.volumeId);
  expect(await claimUIDs(volume?.volumeId ?? "")).toEqual(before);
});

it(
  "a volume in use gets no further member there, says why, has what it had, and goes on without a restart",
  async () => {
    const handle = await inUse("filling");
    const before = await claimUIDs(handle);
    await isForeign();
    await span.target("filling", "3Gi", "2Gi");
    const stalled = await span.untilCondition("why", "filling", "Stalled", ({ status: is }) => is === "True");
    expect(stalled).toMatchObject({ reason: "MemberFailed", message: expect.stringMatching(REASON) });
    expect(await claimUIDs(handle)).toEqual(before);
    expect((await span.layout(handle))?.spec.members?.[0]?.state).toBe("Present");
    await labelled(HOME_LABELS);
    await span.untilLayout("m1 is attached", handle, isAttached("m1"));
  },
  LIMIT_MS,
);

it(
  "a member that is there grows all the same",
  async () => {
    const handle = await inUse("growing", { memberStorageClassName: "growing", strategy: "GrowMember" });
    await isForeign();
    await span.target("growing", "3Gi", "2Gi");
    const name = { namespace: MEMBER_NAMESPACE, name: `${handle}-m0` };
    await untilRead(
      "the member's claim to ask for 3Gi",
      async () => (await cluster.client.get(PERSISTENT_VOLUME_CLAIMS, name))?.spec.resources?.requests?.storage,
      (size) => size === "3Gi",
    );
  },
  LIMIT_MS,
);

it(
  "no claim is made again there for a volume that has lost its own, whose volume waits for no claim meanwhile",
  async () => {
    const handle = await inUse("orphaned");
    await cluster.stopOperator();
    await cluster.client.delete("test/delete-layout", FILESYSTEM_LAYOUTS, { name: handle });
    const claim = { namespace: MEMBER_NAMESPACE, name: `${handle}-m0` };
    await cluster.client.delete("test/delete-member", PERSISTENT_VOLUME_CLAIMS, claim);
    const before = await volumeOf(handle);
    expect(before?.spec.claimRef?.uid).toBeDefined();
    await isForeign();
    await cluster.startOperator();
    const stalled = await span.untilCondition("why", "orphaned", "Stalled", ({ message }) => REASON.test(message));
    expect(stalled).toMatchObject({ status: "True", reason: "MemberFailed" });
    expect(await claimUIDs(handle)).toEqual([]);
    expect(await span.layout(handle)).toBeUndefined();
    expect((await volumeOf(handle))?.spec).toEqual(before?.spec);
    await labelled(HOME_LABELS);
    await span.untilLayout("m0 is attached", handle, isAttached("m0"));
    expect((await volumeOf(handle))?.metadata.uid).toBe(before?.metadata.uid);
  },
  LIMIT_MS,
);

it(
  "a volume that is deleted says what its kept volume waits for, and goes once the namespace is ours",
  async () => {
    const { handle } = await span.created();
    const { metadata } = (await volumeOf(handle)) ?? { metadata: { name: "" } };
    const claim = { namespace: MEMBER_NAMESPACE, name: `${handle}-m0` };
    await cluster.client.delete("test/delete-member", PERSISTENT_VOLUME_CLAIMS, claim);
    const free = { spec: { claimRef: { uid: null } } };
    await cluster.client.mergePatch("test/free", PERSISTENT_VOLUMES, { name: metadata.name }, free);
    await isForeign();
    const refused = { code: status.ABORTED, details: expect.stringMatching(REASON) };
    await expect(span.remove(handle)).rejects.toMatchObject(refused);
    expect((await volumeOf(handle))?.spec.persistentVolumeReclaimPolicy).toBe("Retain");
    await labelled(HOME_LABELS);
    await persist(() => span.remove(handle));
    expect(await span.layout(handle)).toBeUndefined();
  },
  LIMIT_MS,
);
