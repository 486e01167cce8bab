// What is whole again after people have deleted what they should not have, or put back an old state of the cluster: claims and policies
// in the middle of an operation, a tenant's namespace, every object and definition of Tidemark, Tidemark itself, etcd.
import { readdirSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { volumeHandleOf, volumeUIDOf } from "../../src/contracts/identity.ts";
import { FILESYSTEMS } from "../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../src/contracts/kinds/filesystem-layout.ts";
import { KINDS } from "../../src/contracts/kinds/kinds.ts";
import { VOLUME_POLICIES } from "../../src/contracts/kinds/volume-policy.ts";
import {
  CUSTOM_RESOURCE_DEFINITIONS,
  NAMESPACES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  VOLUME_ATTACHMENTS,
} from "../../src/contracts/kubernetes/resources.ts";
import { MEMBER_LABEL, MEMBER_NAMESPACE, RECORDS } from "../../src/contracts/names.ts";
import type { Cluster } from "../cluster/cluster-state.ts";
import { backUpEtcd, restoreEtcd } from "../cluster/etcd-backup.ts";
import { waitFor } from "../harness/wait-for.ts";
import { installMemberDriver } from "../member-driver/install.ts";
import { writeSwitches } from "../member-driver/switches.ts";
import { applyObject } from "./apply-object.ts";
import { BREATHING, breathingPolicy } from "./breathing-policy.ts";
import { claimingPod, claimOf, localClass, spanClass } from "./claiming-pod.ts";
import { type ClusterUnderTest, clusterOf, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn } from "./describe-on.ts";
import {
  everyPodReady,
  FOUNDATION,
  install,
  loadImages,
  OVERLAY,
  SYSTEM_NAMESPACE,
  WORKLOADS,
} from "./installed-tidemark.ts";
import { watchMountsOf } from "./mount-watch.ts";
import { PODS } from "./pod.ts";
import { spanObjects, spanTracesOnNodes } from "./span-traces.ts";
import { type SteadyWriter, steadyWriter } from "./steady-writer.ts";
import { whatIsThere } from "./what-is-there.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 600_000;
const SPAN_CLASS = "e2e-span";
const RETAIN_CLASS = "e2e-span-kept";
const LOCAL_CLASS = "e2e-loop";
const SLOW_MS = 5000;
const LIMITS = { min: "1Gi", max: "4Gi", minAvailable: "128Mi" };

let tested: ClusterUnderTest;
let memberDirectory = "";
let spanned: SteadyWriter;
let local: SteadyWriter;
const writers = (): SteadyWriter[] => [spanned, local];

const ourCluster = (): Cluster => clusterOf(tested);

const otherwise = (): Promise<string> => whatIsThere(tested, memberDirectory);

async function until<T>(what: string, look: () => Promise<T | undefined>, intervalMs = 300): Promise<T> {
  return waitFor(what, look, { limitMs: LIMIT_MS / 2, intervalMs, otherwise });
}

async function inPod(writer: SteadyWriter, script: string): Promise<string> {
  return tested.kubectl("exec", (await writer.running()).metadata.name, "--", "sh", "-ec", `cd /data; ${script}`);
}

/** What statfs tells of a btrfs follows from its fsid. */
const statfsId = async (writer: SteadyWriter): Promise<string> => (await inPod(writer, "stat -f -c %i .")).trim();
const capacityMiB = async (writer: SteadyWriter): Promise<number> =>
  Number(await inPod(writer, "df -m . | awk 'NR == 2 { print $2 }'"));

const BULK_MIB = 64;
async function writeBulk(writer: SteadyWriter, from: number, to: number): Promise<void> {
  for (let index = from; index <= to; index += 1) {
    const name = `bulk${index}`;
    await inPod(
      writer,
      `dd if=/dev/urandom of=${name} bs=1M count=${BULK_MIB} conv=fsync; sha256sum ${name} > ${name}.sum`,
    );
  }
}

async function isWhole(writer: SteadyWriter): Promise<void> {
  const bulk = await inPod(writer, "find . -name 'bulk*.sum' -exec sha256sum -c {} ';' 2>&1 | grep -v ': OK$' || true");
  expect([writer.name, await writer.damaged(), writer.failures(), bulk]).toEqual([writer.name, "", "", ""]);
}

const layoutOf = async (handle: string): Promise<FilesystemLayout | undefined> =>
  tested.client.get(FILESYSTEM_LAYOUTS, { name: handle });

async function request(claim: string, storage: string): Promise<void> {
  const name = { namespace: tested.namespace, name: claim };
  await tested.client.mergePatch("e2e/request", PERSISTENT_VOLUME_CLAIMS, name, {
    spec: { resources: { requests: { storage } } },
  });
}

/** Everything runs, the layouts are there again, and the nodes report on them. */
async function tidemarkIsBack(): Promise<void> {
  await everyPodReady(tested);
  for (const writer of writers()) {
    const handle = await writer.handle();
    await until(`${writer.name} to be mounted and reported`, async () =>
      (await layoutOf(handle))?.status?.mounted === true ? true : undefined,
    );
    await until(`the Filesystem of ${writer.name} to be Ready`, async () => {
      const { items } = await tested.client.list(FILESYSTEMS, { namespace: tested.namespace });
      const conditions = items.find(({ status }) => status?.volumeHandle === handle)?.status?.conditions;
      return conditions?.some(({ type, status }) => type === "Ready" && status === "True") ? true : undefined;
    });
  }
}

/**
 * Mounted on one node at most at every moment while Tidemark is taken away and put back by `work`, and as it was: while it runs, and
 * after its pod was made anew, unmounted and mounted once more.
 */
async function outlasts(work: () => Promise<void>): Promise<void> {
  const fsids = await Promise.all(writers().map(statfsId));
  const watch = await watchMountsOf(ourCluster(), [await spanned.handle()]);
  await work();
  await tidemarkIsBack();
  for (const writer of writers()) await isWhole(writer);
  for (const writer of writers()) await tested.kubectl("delete", "pod", (await writer.running()).metadata.name);
  for (const writer of writers()) await isWhole(writer);
  expect(await Promise.all(writers().map(statfsId))).toEqual(fsids);
  for (const { changes } of Object.values(await watch.end()))
    expect(changes.every((nodes) => nodes.length <= 1)).toBe(true);
}

/** As it is told on the Filesystem. */
async function stalledIs(name: string, text: RegExp): Promise<void> {
  await until(`Filesystem ${name} to be Stalled: ${text.source}`, async () => {
    const filesystem = await tested.client.get(FILESYSTEMS, { namespace: tested.namespace, name });
    const stalled = filesystem?.status?.conditions?.find(({ type }) => type === "Stalled");
    return stalled?.status === "True" && text.test(stalled.message) ? true : undefined;
  });
}

/** Waiting for the claim that it had. */
async function putBack({ metadata, spec, ...volume }: PersistentVolume): Promise<void> {
  const { name, labels, annotations } = metadata;
  const { namespace, name: claim } = spec.claimRef ?? {};
  const { status: _status, ...rest } = { ...volume, spec: { ...spec, claimRef: { namespace, name: claim } } };
  await tested.client.create("e2e/put-back", PERSISTENT_VOLUMES, { ...rest, metadata: { name, labels, annotations } });
}

/** As docs/reference/installation.md says it. A binding that is deleted is still asked for a moment. */
async function withoutGuards(...command: readonly string[]): Promise<void> {
  const kinds = "validatingadmissionpolicies,validatingadmissionpolicybindings";
  const found = await tested.kubectl("get", kinds, "--selector=tidemark.dev/foundation", "--output=name");
  const guards = found.split("\n").filter((name) => name !== "");
  for (const guard of guards)
    await tested.kubectl("patch", guard, "--type=merge", '--patch={"metadata":{"finalizers":null}}');
  await tested.kubectl("delete", "--ignore-not-found", ...guards);
  await until(`kubectl ${command.join(" ")}`, async () => {
    await tested.kubectl(...command);
    return true;
  });
}

/** What of it is there, each with the UID by which one that was made anew would show. */
async function foundation(): Promise<string[]> {
  const path = 'jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid}{"\\n"}{end}';
  return (await tested.kubectl("get", "--kustomize", FOUNDATION, "--ignore-not-found", "--output", path)).split("\n");
}

async function tidemarkDefinitions(): Promise<string[]> {
  const { items } = await tested.client.list(CUSTOM_RESOURCE_DEFINITIONS);
  return items.map(({ metadata }) => metadata.name).filter((name) => name.endsWith(".tidemark.dev"));
}

describeOn("own", "volumes whose objects are deleted", ["bundle"], () => {
  beforeAll(async () => {
    tested = await startClusterUnderTest();
    memberDirectory = (await installMemberDriver(tested)) ?? "";
    await loadImages(tested);
    await install(tested);
    const kept = { ...spanClass(RETAIN_CLASS), reclaimPolicy: "Retain" };
    for (const object of [spanClass(SPAN_CLASS), kept, localClass(LOCAL_CLASS)]) await applyObject(tested, object);
    spanned = steadyWriter(tested, "spanned", { run: "StatefulSet", className: SPAN_CLASS });
    local = steadyWriter(tested, "local", { run: "StatefulSet", className: LOCAL_CLASS });
  }, BUILD_LIMIT_MS);

  afterAll(() => tested?.close(), LIMIT_MS);

  it(
    "leaves nothing of claims that are deleted while a slow driver makes, attaches and stages a member for them",
    async () => {
      const moments: Readonly<Record<string, (handle: string) => Promise<boolean>>> = {
        "while-made": async (handle) => {
          const name = { namespace: MEMBER_NAMESPACE, name: `${handle}-m1` };
          return (await tested.client.get(PERSISTENT_VOLUME_CLAIMS, name))?.status?.phase === "Pending";
        },
        "while-attached": async (handle) => {
          const labelSelector = `${MEMBER_LABEL}=m1`;
          const { items } = await tested.client.list(VOLUME_ATTACHMENTS, { labelSelector });
          const own = items.find(
            ({ metadata }) => volumeHandleOf(metadata.labels?.[RECORDS.volumeUID] ?? "") === handle,
          );
          return own !== undefined && own.status?.attached !== true;
        },
        "while-staged": async (handle) => {
          const { spec, status } = (await layoutOf(handle)) ?? {};
          return spec?.members?.[1]?.source.claim?.attachment !== undefined && status?.members?.length === 1;
        },
      };
      for (const name of Object.keys(moments)) {
        await applyObject(tested, claimOf(name, SPAN_CLASS, "1Gi"));
        await applyObject(tested, claimingPod(name, tested.image, name));
      }
      const handles = new Map<string, string>();
      for (const name of Object.keys(moments)) {
        await until(`pod ${name} to run`, async () => {
          const pod = await tested.client.get(PODS, { namespace: tested.namespace, name });
          return pod?.status?.phase === "Running" ? true : undefined;
        });
        const claim = await tested.client.get(PERSISTENT_VOLUME_CLAIMS, { namespace: tested.namespace, name });
        handles.set(name, volumeHandleOf(claim?.metadata.uid ?? ""));
      }
      const slow = ["CreateVolume", "ControllerPublishVolume", "NodeStageVolume"] as const;
      writeSwitches(memberDirectory, { faults: slow.map((rpc) => ({ rpc, delayMs: SLOW_MS })) });
      for (const name of Object.keys(moments)) await request(name, "2Gi");
      const deleteAtItsMoment = async ([name, isNow]: (typeof entries)[number]): Promise<void> => {
        const look = async () => ((await isNow(handles.get(name) ?? "")) ? true : undefined);
        await until(`the moment to delete ${name}`, look, 50);
        await tested.kubectl("delete", "pod,pvc", name, "--wait=false");
      };
      const entries = Object.entries(moments);
      await Promise.all(entries.map(deleteAtItsMoment));
      let left: string[] = [];
      const look = async (): Promise<true | undefined> => {
        const volumes = readdirSync(memberDirectory).filter((file) => file.endsWith(".volume.json"));
        left = [...(await spanObjects(tested)), ...(await spanTracesOnNodes(ourCluster())), ...volumes];
        return left.length === 0 ? true : undefined;
      };
      await waitFor("nothing to be left", look, {
        limitMs: LIMIT_MS / 2,
        intervalMs: 500,
        otherwise: async () => `${left.join("\n")}\n${await otherwise()}`,
      });
      writeSwitches(memberDirectory, {});
    },
    LIMIT_MS,
  );

  it(
    "ends a shrink cleanly whose policy is deleted meanwhile, and loses nothing",
    async () => {
      await applyObject(tested, breathingPolicy(LIMITS));
      for (const writer of writers()) for (const object of writer.objects) await applyObject(tested, object);
      await writeBulk(spanned, 1, 13);
      await until("a second member", async () => ((await capacityMiB(spanned)) === 2048 ? true : undefined));
      await writeBulk(spanned, 14, 18);
      const gone = Array.from({ length: 13 }, (_, index) => `bulk${index + 1}`);
      await inPod(spanned, `rm ${gone.flatMap((name) => [name, `${name}.sum`]).join(" ")}; sync .`);
      const handle = await spanned.handle();
      const shrinking = async () => {
        const { spec, status } = (await layoutOf(handle)) ?? {};
        const isAsked = spec?.members?.some(({ state }) => state === "Removed");
        return isAsked && !status?.members?.some(({ state }) => state === "Removed") ? true : undefined;
      };
      await until("the shrink", shrinking, 10);
      await tested.kubectl("delete", "volumepolicy", BREATHING);
      const ended = await until("the shrink to have ended or been taken back", async () => {
        const layout = await layoutOf(handle);
        const statesOf = (members: readonly { name: string; state?: string | undefined }[] | undefined) =>
          members
            ?.map(({ name, state }) => `${name} ${state}`)
            .sort()
            .join();
        const states = statesOf(layout?.spec.members);
        // One that is taken back before its node has begun is not the end: the node may begin yet, on what it has read.
        if (layout?.status?.operation !== undefined || statesOf(layout?.status?.members) !== states) return undefined;
        return states === "m0 Present" || states === "m0 Present,m1 Present" ? states : undefined;
      });
      expect(await capacityMiB(spanned)).toBe(ended === "m0 Present" ? 1024 : 2048);
      await writeBulk(spanned, 19, 19);
      await isWhole(spanned);
    },
    LIMIT_MS,
  );

  it(
    "gives a volume that was kept when its tenant's namespace was deleted to the claim that is made anew for it",
    async () => {
      const namespace = `${tested.namespace}-tenant`;
      const tenant = {
        ...tested,
        namespace,
        kubectl: (...args: string[]) => tested.kubectl("-n", namespace, ...args),
      };
      const move = async (volumeName?: string): Promise<SteadyWriter> => {
        await tested.kubectl("create", "namespace", namespace);
        const writer = steadyWriter(tenant, "tenant", { run: "Deployment", className: RETAIN_CLASS });
        for (const object of writer.objects) {
          const { kind, spec } = object as { kind: string; spec: object };
          await applyObject(
            tenant,
            kind === "PersistentVolumeClaim" ? { ...object, spec: { ...spec, volumeName } } : object,
          );
        }
        await writer.running();
        return writer;
      };
      const idOf = (pod: string) => tenant.kubectl("exec", pod, "--", "stat", "-f", "-c", "%i", "/data");
      const before = await move();
      const handle = await before.handle();
      const fsid = await idOf((await before.running()).metadata.name);
      await tested.kubectl("delete", "namespace", namespace, "--timeout=180s");
      const { items } = await tested.client.list(PERSISTENT_VOLUMES);
      const volume = items.find(({ spec }) => spec.csi?.volumeHandle === handle);
      const name = volume?.metadata.name ?? "";
      // As Kubernetes documents it for volumes that are kept.
      const forget = { spec: { claimRef: { uid: null, resourceVersion: null } } };
      await tested.client.mergePatch("e2e/claim-anew", PERSISTENT_VOLUMES, { name }, forget);
      const after = await move(name);
      const claimUID = (await tested.client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name: "tenant" }))?.metadata.uid;
      expect([await after.damaged(), after.failures()]).toEqual(["", ""]);
      expect(await idOf((await after.running()).metadata.name)).toBe(fsid);
      await until("the layout to name the new claim", async () =>
        (await layoutOf(handle))?.spec.claimRef?.uid === claimUID ? true : undefined,
      );
      const change = { spec: { resources: { requests: { storage: "2Gi" } } } };
      await tested.client.mergePatch("e2e/request", PERSISTENT_VOLUME_CLAIMS, { namespace, name: "tenant" }, change);
      await until("its Filesystem to have 2 GiB", async () => {
        const filesystem = await tested.client.get(FILESYSTEMS, { namespace, name: "tenant" });
        return filesystem?.spec.claimRef?.uid === claimUID && filesystem?.status?.capacity === "2Gi" ? true : undefined;
      });
      expect([await after.damaged(), after.failures()]).toEqual(["", ""]);
      await tested.kubectl("delete", "namespace", namespace, "--wait=false");
    },
    LIMIT_MS,
  );

  it(
    "makes every object again that was deleted with its definition, and mounts everything again",
    async () => {
      await outlasts(async () => {
        const definitions = await tidemarkDefinitions();
        expect(definitions).toHaveLength(KINDS.length);
        await expect(tested.kubectl("delete", "crd", ...definitions)).rejects.toThrow(/members of volumes hold data/);
        await expect(tested.kubectl("delete", "namespace", MEMBER_NAMESPACE)).rejects.toThrow(/hold data/);
        await withoutGuards("delete", "crd", "--ignore-not-found", ...definitions);
        for (const writer of writers()) await isWhole(writer);
        await tested.kubectl("apply", "--server-side", "--kustomize", FOUNDATION);
        await tested.kubectl("-n", SYSTEM_NAMESPACE, "rollout", "restart", ...WORKLOADS);
      });
    },
    LIMIT_MS,
  );

  const uninstall = ["-n", SYSTEM_NAMESPACE, "delete", "--kustomize", OVERLAY, "--ignore-not-found", "--timeout=240s"];
  const deleteFoundation = ["delete", "--kustomize", FOUNDATION, "--ignore-not-found", "--timeout=240s"];

  it(
    "keeps definitions, guards and policies when its overlay is deleted, and deleted again, and has every filesystem when it is back",
    async () => {
      const { spec, ...policy } = breathingPolicy(LIMITS) as { spec: object };
      await applyObject(tested, { ...policy, spec: { ...spec, suspend: true } });
      const policies = async () =>
        (await tested.client.list(VOLUME_POLICIES)).items.map(({ metadata }) => metadata.uid);
      await outlasts(async () => {
        const before = [await foundation(), await policies()];
        expect(before.map(({ length }) => length > 0)).toEqual([true, true]);
        for (let time = 1; time <= 2; time += 1) await tested.kubectl(...uninstall);
        const namespaces = (await tested.client.list(NAMESPACES)).items.map(({ metadata }) => metadata.name);
        expect(namespaces.filter((name) => [SYSTEM_NAMESPACE, MEMBER_NAMESPACE].includes(name))).toEqual([
          MEMBER_NAMESPACE,
        ]);
        expect([await foundation(), await policies()]).toEqual(before);
        for (const writer of writers()) await isWhole(writer);
        await install(tested);
      });
      await tested.kubectl("delete", "volumepolicy", BREATHING);
    },
    LIMIT_MS,
  );

  it(
    "is deleted whole once its guards are, with its namespaces and definitions, and has every filesystem again when it is back",
    async () => {
      await outlasts(async () => {
        await tested.kubectl(...uninstall);
        for (let time = 1; time <= 2; time += 1) {
          await expect(tested.kubectl(...deleteFoundation)).rejects.toThrow(/members of volumes hold data/);
          expect(await tidemarkDefinitions()).toHaveLength(KINDS.length);
        }
        await withoutGuards(...deleteFoundation);
        expect(await tidemarkDefinitions()).toEqual([]);
        const namespaces = (await tested.client.list(NAMESPACES)).items.map(({ metadata }) => metadata.name);
        expect(namespaces.filter((name) => [SYSTEM_NAMESPACE, MEMBER_NAMESPACE].includes(name))).toEqual([]);
        for (const writer of writers()) await isWhole(writer);
        await install(tested);
      });
    },
    LIMIT_MS,
  );

  it(
    "keeps what it has when etcd is put back to before an extend, says what is missing, and is whole once that is put back",
    async () => {
      const [fsid, handle, { spec: on }] = [await statfsId(spanned), await spanned.handle(), await spanned.running()];
      const membersOf = async () => {
        const labelSelector = `${RECORDS.volumeUID}=${volumeUIDOf(handle)}`;
        return (await tested.client.list(PERSISTENT_VOLUMES, { labelSelector })).items;
      };
      const nodes = ourCluster().nodes.filter((node) => node !== on.nodeName);
      await tested.kubectl("cordon", ...nodes);
      const backup = await backUpEtcd(ourCluster());
      const known = (await membersOf()).map(({ metadata }) => metadata.name);
      // Whoever leads from now on writes under an epoch that the backup knows nothing of.
      await tested.kubectl("-n", SYSTEM_NAMESPACE, "rollout", "restart", "deployment/policy-engine");
      await everyPodReady(tested);
      await request("data-spanned-0", "3Gi");
      await until("the extend", async () => ((await capacityMiB(spanned)) === 3072 ? true : undefined));
      await writeBulk(spanned, 20, 28);
      const lost = (await membersOf()).filter(({ metadata }) => !known.includes(metadata.name));
      expect(lost).toHaveLength(1);
      await restoreEtcd(ourCluster(), backup);
      expect((await membersOf()).map(({ metadata }) => metadata.name)).toEqual(known);
      const { driver = "", volumeHandle = "" } = lost[0]?.spec.csi ?? {};
      await stalledIs("data-spanned-0", new RegExp(`spec.members lacks .*volume ${volumeHandle} of driver ${driver}`));
      await isWhole(spanned);
      expect(await statfsId(spanned)).toBe(fsid);
      // Nothing is mounted without it, and nothing is made in its place.
      await tested.kubectl("delete", "pod", "spanned-0");
      await stalledIs("data-spanned-0", /it has \d devices, and \d of them are here/);
      // What a backup of the objects, or the members' driver, still knows of it.
      for (const volume of lost) await putBack(volume);
      await tested.kubectl("delete", "filesystemlayout", handle);
      await isWhole(spanned);
      expect([await statfsId(spanned), await capacityMiB(spanned)]).toEqual([fsid, 3072]);
    },
    LIMIT_MS,
  );
});
