// The operator dies by SIGKILL before and after every write of a span's life, and the life ends as it would have: nothing is left
// behind, nothing is made twice. The node is played by its reports; what it does to devices has a crash test of its own.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { bootstrap } from "../../demo/stand-ins/bootstrap.ts";
import { FILESYSTEMS } from "../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayoutStatus } from "../../src/contracts/kinds/filesystem-layout.ts";
import type { KubeObject } from "../../src/contracts/kubernetes/object.ts";
import {
  NAMESPACES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolumeClaim,
  STORAGE_CLASSES,
} from "../../src/contracts/kubernetes/resources.ts";
import { MEMBER_NAMESPACE } from "../../src/contracts/names.ts";
import { type ConnectedKubeClient, createKubeClient } from "../../src/platform/kube/client/http-client.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { createLogger } from "../../src/platform/process/log.ts";
import { createZoneNode, MEMBER_CLASS, type MemberSidecars, startMemberSidecars } from "../fakes/member-sidecars.ts";
import { type ApiUnderTest, startApiUnderTest } from "../harness/api-under-test.ts";
import {
  type CrashingOperator,
  createCrashingOperator,
  liveWithEachDeath,
  persist,
} from "../harness/crashing-operator.ts";
import { noteDeaths } from "../harness/death-notes.ts";
import { startDoomed } from "../harness/doomed-process.ts";
import { untilRead } from "../harness/wait-for.ts";
import { provisionedSpan } from "../integration/operator/provisioned-span.ts";
import { isAttached, type SpanUnderTest, spanUnderTest } from "../integration/operator/span-under-test.ts";

const NODE_NAME = "node-1";
const MATRIX_LIMIT_MS = 2_400_000;

let directory: string;
let controlPlane: ApiUnderTest;
let client: ConnectedKubeClient;
let sidecars: MemberSidecars;
let span: SpanUnderTest;
let operator: CrashingOperator;

async function openWorld(): Promise<CrashingOperator> {
  const log = createLogger("test", "silent");
  directory = mkdtempSync(join(tmpdir(), "tidemark-span-crash-"));
  controlPlane = await startApiUnderTest({ port: 0, log });
  client = createKubeClient({ connection: { server: controlPlane.url }, effects: directEffects, log });
  await bootstrap(client, {
    crdDirectory: "kustomize/foundation/crds",
    nodeName: NODE_NAME,
    initialSize: "1Gi",
    fsType: "btrfs",
  });
  const object = (kind: string, name: string) => ({ apiVersion: "v1", kind, metadata: { name } });
  await client.create("test/namespace", NAMESPACES, object("Namespace", "shop"));
  await createZoneNode(client, "node-a");
  sidecars = await startMemberSidecars(client, log);
  const spanSocket = join(directory, "span.sock");
  span = spanUnderTest({ client, spanSocket });
  operator = await createCrashingOperator({
    directory,
    serverUrl: controlPlane.url,
    client,
    args: ["--csi-socket", join(directory, "local.sock"), "--span-csi-socket", spanSocket],
  });
  return operator;
}
async function closeWorld(): Promise<void> {
  span.close();
  await operator.stop();
  await sidecars.stop();
  await client.close();
  await controlPlane.close();
  rmSync(directory, { recursive: true, force: true });
}
async function renewWorld(): Promise<CrashingOperator> {
  await closeWorld();
  return openWorld();
}
beforeAll(async () => void (await openWorld()));
afterAll(closeWorld, 120_000);

it(
  "a span's life ends as it should, wherever the operator dies in it",
  async () => {
    const lived = await liveWithEachDeath("span-operator-crash", operator, live, renewWorld);
    noteDeaths("span-operator-crash", lived);
    const { points, failures } = lived;
    expect(points.length).toBeGreaterThan(30);
    expect(failures).toEqual([]);
  },
  MATRIX_LIMIT_MS,
);

it("members' claims that were deleted with the layout come back for their volumes, also when the operator dies over each volume", async () => {
  const passages = ["rebuild/free-volume/before", "rebuild/free-volume/after"];
  const doomed = await startDoomed(operator, passages, directory);
  const persistent: SpanUnderTest = {
    ...span,
    create: (request) => persist(() => span.create(request)),
    publish: (volumeId, nodeId) => persist(() => span.publish(volumeId, nodeId)),
  };
  const { handle } = await provisionedSpan({ client }, persistent, "orphaned");
  const before = await span.layout(handle);
  const claim = { namespace: MEMBER_NAMESPACE, name: `${handle}-m0` };
  const hold = (finalizers: string[] | null) =>
    client.mergePatch("test/hold", PERSISTENT_VOLUME_CLAIMS, claim, { metadata: { finalizers } });
  // So that the claim goes only once there is no layout any more.
  await hold(["test.example.com/hold"]);
  await client.delete("test/delete-member", PERSISTENT_VOLUME_CLAIMS, claim);
  await client.delete("test/delete-layout", FILESYSTEM_LAYOUTS, { name: handle });
  await hold(null);
  const after = await span.untilLayout(
    "a new layout whose member is attached",
    handle,
    (layout) => layout.metadata.uid !== before?.metadata.uid && isAttached("m0")(layout),
  );
  await doomed.stop();
  noteDeaths("span-operator-crash-rebuild", { killsAt: passages, diedAt: doomed.diedAt() });
  const volumes = (layout = before) => layout?.spec.members?.map(({ source }) => source.claim?.volumeHandle);
  expect({ volumes: volumes(after), claims: await span.claims(handle), diedAt: doomed.diedAt() }).toEqual({
    ...{ volumes: volumes(), claims: [claim.name], diedAt: passages },
  });
});

it("members carry what their volume's claim says, also when the operator dies over each of them", async () => {
  const passages = ["claim", "volume"].flatMap((of) => [`member/mark-${of}/before`, `member/mark-${of}/after`]);
  const doomed = await startDoomed(operator, passages, directory);
  const persistent: SpanUnderTest = {
    ...span,
    create: (request) => persist(() => span.create(request)),
    publish: (volumeId, nodeId) => persist(() => span.publish(volumeId, nodeId)),
  };
  const { handle } = await provisionedSpan({ client }, persistent, "marked", { memberLabels: "team" });
  const labels = { team: "red" };
  const ofUser = { namespace: "shop", name: "marked" };
  await client.mergePatch("test/label", PERSISTENT_VOLUME_CLAIMS, ofUser, { metadata: { labels } });
  const isMarked = ({ metadata }: KubeObject): boolean => metadata.labels?.["team"] === "red";
  await untilClaim("m0's claim has the label", `${handle}-m0`, isMarked);
  await untilRead(
    "its PersistentVolume has the label",
    async () =>
      (await client.list(PERSISTENT_VOLUMES)).items.find(({ spec }) => spec.claimRef?.name === `${handle}-m0`),
    (volume) => volume !== undefined && isMarked(volume) && doomed.left().length === 0,
  );
  await doomed.stop();
  noteDeaths("span-operator-crash-marks", { killsAt: passages, diedAt: doomed.diedAt() });
  expect(doomed.diedAt()).toEqual(passages);
});

/** Made, used, extended by a member, shrunk by it again, given a spare, then a smaller one, grown in place, unmounted, deleted. */
async function live(): Promise<void> {
  await expandsMembers(false);
  const request = span.request({ memberStorageClassName: "member-class", spareMembers: "1" });
  const claim = request.parameters["csi.storage.k8s.io/pvc/name"] ?? "";
  const handle = (await persist(() => span.create(request))).volume?.volumeId ?? "";
  await persist(() => span.publish(handle, "node-a"));
  await untilAttached(handle, "m0");
  await span.report(handle, mounted({ m0: "2Gi" }));
  await span.target(claim, "3Gi", "2Gi");
  await untilAttached(handle, "m1");
  await span.report(handle, mounted({ m0: "2Gi", m1: "1Gi" }));
  await span.target(claim, "2Gi", "3Gi");
  await span.untilLayout("m1 is to go", handle, ({ spec }) => spec.members?.[1]?.state === "Removed");
  await span.report(handle, mounted({ m0: "2Gi" }, { m1: "1Gi" }));
  await span.untilLayout("m1 has left", handle, ({ spec }) => spec.members?.length === 1);
  expect(await span.claims(handle)).toEqual([`${handle}-m0`]);
  await span.grant(handle, "4Gi");
  await untilAttached(handle, "m2");
  await span.grant(handle, "3Gi");
  await span.untilLayout("m2 is to go", handle, ({ spec }) => spec.members?.[1]?.state === "Removed");
  await span.report(handle, mounted({ m0: "2Gi" }, { m2: "2Gi" }));
  await untilAttached(handle, "m3");
  expect(await span.claims(handle)).toEqual([`${handle}-m0`, `${handle}-m3`]);
  await expandsMembers(true);
  await span.target(claim, "4Gi", "2Gi");
  await untilClaim("m0's claim is grown", `${handle}-m0`, ({ spec }) => spec.resources?.requests?.storage === "4Gi");
  await span.report(handle, mounted({ m0: "4Gi" }));
  await untilClaim("m0's claim shows its size", `${handle}-m0`, ({ status }) => status?.capacity?.storage === "4Gi");
  await span.report(handle, { ...mounted({ m0: "4Gi" }), mounted: false });
  await persist(() => span.unpublish(handle, "node-a"));
  await persist(() => span.remove(handle));
  await untilRead(
    "no volume is left",
    () => span.volumes(handle),
    (names) => names.length === 0,
  );
  expect(await span.claims(handle)).toEqual([]);
  expect(await span.layout(handle)).toBeUndefined();
  expect(await span.attachments()).toEqual([]);
  expect(await client.get(FILESYSTEMS, { namespace: "shop", name: claim })).toBeUndefined();
}

function mounted(present: Record<string, string>, removed: Record<string, string> = {}): FilesystemLayoutStatus {
  const of = (sizes: Record<string, string>, state: "Present" | "Removed") =>
    Object.entries(sizes).map(([name, size]) => ({ name, size, state }));
  return { nodeName: "node-a", mounted: true, members: [...of(present, "Present"), ...of(removed, "Removed")] };
}

async function expandsMembers(allowVolumeExpansion: boolean): Promise<void> {
  await client.mergePatch("test/expansion", STORAGE_CLASSES, { name: MEMBER_CLASS }, { allowVolumeExpansion });
}

async function untilClaim(what: string, name: string, holds: (claim: PersistentVolumeClaim) => boolean): Promise<void> {
  await untilRead(
    what,
    () => client.get(PERSISTENT_VOLUME_CLAIMS, { namespace: MEMBER_NAMESPACE, name }),
    (claim) => claim !== undefined && holds(claim),
  );
}

async function untilAttached(handle: string, name: string): Promise<void> {
  await span.untilLayout(`${name} is attached`, handle, isAttached(name));
}
