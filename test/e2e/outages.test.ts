// What goes on, and what is whole afterwards, while parts of a cluster are away: the API server, the controller-manager, a kubelet, a
// node that is drained, a node without power. Pods write all the time; what fsync has acknowledged to them is verified after each.
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { fsidOf, volumeHandleOf, volumeUIDOf } from "../../src/contracts/identity.ts";
import { FILESYSTEM_LAYOUTS } from "../../src/contracts/kinds/filesystem-layout.ts";
import {
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  VOLUME_ATTACHMENTS,
} from "../../src/contracts/kubernetes/resources.ts";
import { RECORDS } from "../../src/contracts/names.ts";
import { startComponent, stopComponent } from "../cluster/components.ts";
import { nodeProgramName, powerOff, powerOn } from "../cluster/node.ts";
import { nodeReady } from "../cluster/readiness.ts";
import { takesAll } from "../harness/sample.ts";
import { waitFor } from "../harness/wait-for.ts";
import { installMemberDriver } from "../member-driver/install.ts";
import { type LoggedRpc, readRpcLog } from "../member-driver/rpc-log.ts";
import { applyObject } from "./apply-object.ts";
import { ephemeralPod, localClass, spanClass } from "./claiming-pod.ts";
import { type ClusterUnderTest, clusterOf, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn } from "./describe-on.ts";
import { grantIsOnDisk } from "./grant-on-disk.ts";
import { everyPodReady, install, loadImages } from "./installed-tidemark.ts";
import { kernelTrouble } from "./kernel-trouble.ts";
import { watchMountsOf } from "./mount-watch.ts";
import { inContainer } from "./node-shell.ts";
import { PODS } from "./pod.ts";
import { type SteadyWriter, steadyWriter } from "./steady-writer.ts";
import { whatIsThere } from "./what-is-there.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 600_000;
/** Longer than any lease of Tidemark's lasts, and a node's; the long run looks for longer. */
const OUTAGE_MS = takesAll() ? 60_000 : 30_000;
/** kube-controller-manager compares all attachments with what it knows once a minute. */
const RESTARTED_MS = 60_000;
const STOP_SECONDS = 60;
const WRITING_LIMIT_MS = 60_000;
const SPAN_CLASS = "e2e-span";
const LOCAL_CLASS = "e2e-loop";
const OUT_OF_SERVICE = "node.kubernetes.io/out-of-service";
const [FIRST, SECOND] = ["node1", "node2"] as const;

/** It fails unless its volume is a filesystem of its own that keeps what it is given. */
const SHORT_LIFE =
  "grep ' /scratch btrfs rw' /proc/mounts; cd /scratch; dd if=/dev/urandom of=a bs=1M count=8 conv=fsync; sha256sum a > sum; sha256sum -c sum";

/** 1100 MiB, in pieces: an agent that shares two cores with two clusters has seconds for what is left at minAvailable. */
const FILL = "for n in $(seq 22); do dd if=/dev/urandom bs=1M count=50 conv=fsync >> /data/fill; sleep 0.5; done";

const POLICY = {
  apiVersion: "tidemark.dev/v1alpha1",
  kind: "VolumePolicy",
  metadata: { name: "never-full" },
  spec: {
    limits: { min: "1Gi", max: "8Gi", minAvailable: "256Mi" },
    mode: { extend: "Enforce", shrink: "Enforce" },
    rules: [{ name: "extend-at-80", action: "Extend", when: "volume.usedRatio >= 0.8", targetUsed: "40%" }],
    behavior: { extend: { cooldown: "0s", minStep: "256Mi" } },
  },
};

let tested: ClusterUnderTest;
let memberDirectory = "";
let stays: SteadyWriter;
let stopsSlowly: SteadyWriter;
let recreated: SteadyWriter;
let local: SteadyWriter;
let everyMinute: SteadyWriter;
const all = (): SteadyWriter[] => [stays, stopsSlowly, recreated, local];
const spans = (): SteadyWriter[] => [stays, stopsSlowly, recreated];

const otherwise = (): Promise<string> => whatIsThere(tested, memberDirectory);

async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  return waitFor(what, look, { limitMs: LIMIT_MS / 2, intervalMs: 300, otherwise });
}

/** On the only node that takes pods then. */
async function startOn(node: string, ...writers: readonly SteadyWriter[]): Promise<void> {
  const other = node === FIRST ? SECOND : FIRST;
  await tested.kubectl("cordon", other);
  for (const writer of writers) for (const object of writer.objects) await applyObject(tested, object);
  await Promise.all(writers.map((writer) => writer.running()));
  await tested.kubectl("uncordon", other);
}

async function allIsWhole(): Promise<void> {
  for (const writer of all()) {
    expect([writer.name, await writer.damaged(), writer.failures()]).toEqual([writer.name, "", ""]);
    expect(writer.acknowledged()).toBeGreaterThan(0);
  }
}

/** However long one takes for a file. */
async function everyoneWritesOn(since: readonly number[]): Promise<void> {
  const standing = (): string[] =>
    all()
      .filter((writer, index) => writer.acknowledged() <= (since[index] ?? 0))
      .map(({ name }) => name);
  await waitFor("every pod to write on", () => (standing().length === 0 ? true : undefined), {
    limitMs: WRITING_LIMIT_MS,
    intervalMs: 300,
    otherwise: () => `${standing().join(", ")} did not`,
  });
}

const nodeOf = async (writer: SteadyWriter): Promise<string | undefined> => (await writer.running()).spec.nodeName;

/** Each attachment of the volume and of its members, so that one that was made anew differs. */
async function attachmentsOf(writer: SteadyWriter): Promise<string> {
  const handle = await writer.handle();
  const [volumes, attachments] = await Promise.all([
    tested.client.list(PERSISTENT_VOLUMES),
    tested.client.list(VOLUME_ATTACHMENTS),
  ]);
  const own = volumes.items.find(({ spec }) => spec.csi?.volumeHandle === handle)?.metadata.name;
  return attachments.items
    .filter(
      ({ metadata, spec }) =>
        spec.source.persistentVolumeName === own || metadata.labels?.[RECORDS.volumeUID] === volumeUIDOf(handle),
    )
    .map(({ metadata, spec, status }) =>
      [metadata.uid, spec.nodeName, status?.attached, metadata.deletionTimestamp ?? "stays"].join(" "),
    )
    .sort()
    .join("\n");
}

async function memberRpcs(writer: SteadyWriter): Promise<LoggedRpc[]> {
  const layout = await tested.client.get(FILESYSTEM_LAYOUTS, { name: await writer.handle() });
  const ids = layout?.spec.members?.map(({ source }) => source.claim?.volumeHandle);
  return readRpcLog(memberDirectory).filter(({ volumeId }) => volumeId !== undefined && ids?.includes(volumeId));
}

const podUIDs = async (): Promise<unknown> =>
  Promise.all(
    all().map(async (writer) => {
      const { metadata, status } = await writer.running();
      return [metadata.uid, status?.containerStatuses?.map(({ restartCount }) => restartCount)];
    }),
  );

describeOn("own", "a cluster in trouble", ["bundle"], () => {
  beforeAll(async () => {
    tested = await startClusterUnderTest();
    memberDirectory = (await installMemberDriver(tested)) ?? "";
    await loadImages(tested);
    await install(tested);
    for (const object of [spanClass(SPAN_CLASS), localClass(LOCAL_CLASS), POLICY]) await applyObject(tested, object);
    const span = { className: SPAN_CLASS };
    stays = steadyWriter(tested, "stays", { run: "StatefulSet", ...span });
    stopsSlowly = steadyWriter(tested, "stops-slowly", { run: "StatefulSet", ...span, stopSeconds: STOP_SECONDS });
    recreated = steadyWriter(tested, "recreated", { run: "Deployment", ...span });
    everyMinute = steadyWriter(tested, "every-minute", { run: "CronJob", ...span });
    local = steadyWriter(tested, "local", { run: "StatefulSet", className: LOCAL_CLASS });
  }, BUILD_LIMIT_MS);

  afterAll(() => tested?.close(), LIMIT_MS);

  it(
    "runs pods on its nodes that write without end, and one that writes every minute",
    async () => {
      for (const object of everyMinute.objects) await applyObject(tested, object);
      await startOn(FIRST, stopsSlowly, recreated);
      await startOn(SECOND, stays, local);
      expect(await Promise.all(all().map(nodeOf))).toEqual([SECOND, FIRST, FIRST, SECOND]);
      await allIsWhole();
    },
    LIMIT_MS,
  );

  it(
    "gives a pod a generic ephemeral span, of which nothing is left when the pod is gone",
    async () => {
      await applyObject(tested, ephemeralPod("short-lived", tested.image, SHORT_LIFE, SPAN_CLASS, "1Gi"));
      const phase = await until("the pod to have ended", async () => {
        const pod = await tested.client.get(PODS, { namespace: tested.namespace, name: "short-lived" });
        return ["Succeeded", "Failed"].includes(pod?.status?.phase ?? "") ? pod?.status?.phase : undefined;
      });
      expect([phase, await tested.kubectl("logs", "short-lived")]).toEqual([
        "Succeeded",
        expect.stringContaining("/scratch btrfs"),
      ]);
      const own = { namespace: tested.namespace, name: "short-lived-scratch" };
      const claim = await tested.client.get(PERSISTENT_VOLUME_CLAIMS, own);
      const layout = { name: volumeHandleOf(claim?.metadata.uid ?? "") };
      expect(await tested.client.get(FILESYSTEM_LAYOUTS, layout)).toBeDefined();
      await tested.kubectl("delete", "pod", "short-lived");
      await until("its layout to be gone", async () =>
        (await tested.client.get(FILESYSTEM_LAYOUTS, layout)) === undefined ? true : undefined,
      );
      expect(await tested.client.get(PERSISTENT_VOLUME_CLAIMS, own)).toBeUndefined();
    },
    LIMIT_MS,
  );

  it(
    "lets pods write on without an API server for longer than any lease, and gives a disk that fills in that time the room it was granted",
    async () => {
      const cluster = clusterOf(tested);
      const [pods, localPod] = [await podUIDs(), await local.running()];
      await grantIsOnDisk(cluster, localPod.spec.nodeName ?? "", await local.handle(), otherwise);
      const watch = await watchMountsOf(cluster, await Promise.all(spans().map((writer) => writer.handle())));
      const capacityMiB = async (): Promise<number> =>
        Number(await inContainer(cluster, localPod, "df -m /data | awk 'NR == 2 { print $2 }'"));
      expect(await capacityMiB()).toBe(1024);
      await stopComponent(cluster, "kube-apiserver");
      const stoppedAtMs = performance.now();
      const atStop = all().map((writer) => writer.acknowledged());
      await inContainer(cluster, localPod, FILL);
      expect(await capacityMiB()).toBeGreaterThan(1200);
      await inContainer(cluster, localPod, "sha256sum /data/fill > /records/fill");
      await everyoneWritesOn(atStop);
      await sleep(Math.max(0, OUTAGE_MS - (performance.now() - stoppedAtMs)));
      await everyoneWritesOn(all().map((writer) => writer.acknowledged()));
      await startComponent(cluster, "kube-apiserver");
      await Promise.all(cluster.nodes.map((node) => nodeReady(cluster, node)));
      await everyPodReady(tested);
      expect(await podUIDs()).toEqual(pods);
      for (const { changes } of Object.values(await watch.end())) expect(changes).toHaveLength(1);
      await inContainer(cluster, localPod, "sha256sum -c /records/fill && rm /data/fill");
      await allIsWhole();
    },
    LIMIT_MS,
  );

  it(
    "detaches nothing for a controller-manager, a scheduler and a kubelet that were restarted, and drains a node whose pod writes for 60 s more",
    async () => {
      const cluster = clusterOf(tested);
      const handles = await Promise.all(spans().map((writer) => writer.handle()));
      const [attached, pods] = [await attachmentsOf(stays), await stays.running()];
      const fsids = handles.map((handle) => fsidOf(volumeUIDOf(handle) ?? ""));
      const since = { kernel: await kernelTrouble.mark(), devices: fsids.flatMap(kernelTrouble.devicesOf) };
      const watch = await watchMountsOf(cluster, handles);
      // The scheduler, too: after an outage it may see new pods some time before it sees that a node takes none.
      for (const component of [nodeProgramName(SECOND, "kubelet"), "kube-controller-manager", "kube-scheduler"]) {
        await stopComponent(cluster, component);
        await startComponent(cluster, component);
      }
      const restartedAtMs = performance.now();
      const seen = new Set<string>();
      let isOver = false;
      const looking = (async () => {
        while (!isOver || performance.now() - restartedAtMs < RESTARTED_MS) {
          seen.add(await attachmentsOf(stays));
          await sleep(300);
        }
      })();
      const draining = ["--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=300s"];
      await tested.kubectl("drain", FIRST, ...draining);
      await Promise.all([stopsSlowly.running(), recreated.running()]);
      isOver = true;
      await looking;
      const sightings = await watch.end();
      const [ofStays, ofSlow, ofRecreated] = handles.map((handle) => sightings[handle]);
      expect([...seen]).toEqual([attached]);
      expect(ofStays?.changes).toEqual([[SECOND]]);
      expect((await stays.running()).metadata.uid).toBe(pods.metadata.uid);
      expect(ofSlow?.changes).toEqual([[FIRST], [], [SECOND]]);
      expect(ofRecreated?.changes).toEqual([[FIRST], [], [SECOND]]);
      expect(stopsSlowly.acknowledgedAtItsEnd()).toBeGreaterThan(stopsSlowly.acknowledgedWhenAsked());
      expect(await kernelTrouble.since(since.kernel, since.devices, fsids)).toEqual([]);
      await detachedAfterUnmount(stopsSlowly, ofSlow?.heldUntilMs[1]);
      await detachedAfterUnmount(recreated, ofRecreated?.heldUntilMs[1]);
      await allIsWhole();
    },
    LIMIT_MS,
  );

  it(
    "has run the pod of the CronJob each minute, wherever, on what the last one has left",
    async () => {
      const counts = async (): Promise<string[]> => {
        const path = "jsonpath={range .items[*]}{.status.succeeded}/{.status.failed} {end}";
        const told = await tested.kubectl("get", "jobs", "--selector=app=every-minute", "--output", path);
        return told.split(" ").filter((one) => one !== "");
      };
      await until("two jobs to have ended", async () =>
        (await counts()).filter((one) => one === "1/").length >= 2 ? true : undefined,
      );
      await tested.kubectl("delete", "cronjob", "every-minute");
      expect([everyMinute.acknowledged() >= 2, everyMinute.failures()]).toEqual([true, ""]);
    },
    LIMIT_MS,
  );

  it(
    "runs the pods of a node that lost its power on another one, and a node that is back leaves their volumes alone",
    async () => {
      const cluster = clusterOf(tested);
      await tested.kubectl("uncordon", FIRST);
      const handles = await Promise.all(spans().map((writer) => writer.handle()));
      const watch = await watchMountsOf(cluster, handles);
      await powerOff(cluster, SECOND);
      await until(`${SECOND} to be NotReady`, async () => {
        const node = await tested.client.get(NODES, { name: SECOND });
        const ready = node?.status?.conditions?.find(({ type }) => type === "Ready");
        return ready?.status === "True" ? undefined : true;
      });
      await tested.kubectl("taint", "node", SECOND, `${OUT_OF_SERVICE}=nodeshutdown:NoExecute`);
      expect(await Promise.all(spans().map(nodeOf))).toEqual([FIRST, FIRST, FIRST]);
      await everyPodReadyBut(SECOND);
      const backAtMs = Date.now();
      await powerOn(cluster, SECOND);
      await nodeReady(cluster, SECOND);
      await tested.kubectl("taint", "node", SECOND, `${OUT_OF_SERVICE}-`);
      await local.running(); // by the agent that is back, which has read its records then
      await everyPodReady(tested);
      await allIsWhole();
      const asked = (await Promise.all(spans().map(memberRpcs)))
        .flat()
        .filter(({ part, startMs, rpc }) => part === SECOND && startMs > backAtMs && /Stage|Publish/.test(rpc))
        .filter(({ rpc }) => !rpc.startsWith("NodeUn"));
      expect(asked).toEqual([]);
      await tested.kubectl("cordon", FIRST);
      await tested.kubectl("delete", "pod", "stays-0");
      expect(await nodeOf(stays)).toBe(SECOND);
      await allIsWhole();
      const sightings = await watch.end();
      expect(handles.map((handle) => sightings[handle]?.changes)).toEqual([
        [[SECOND], [], [FIRST], [], [SECOND]],
        [[SECOND], [], [FIRST]],
        [[SECOND], [], [FIRST]],
      ]);
    },
    LIMIT_MS,
  );
});

/** No member was detached from the node that is left before its filesystem was unmounted there. */
async function detachedAfterUnmount(writer: SteadyWriter, mountedUntilMs: number | undefined): Promise<void> {
  const detached = (await memberRpcs(writer)).filter(({ rpc }) => rpc === "ControllerUnpublishVolume");
  expect(detached.length).toBeGreaterThan(0);
  expect(detached.filter(({ startMs }) => startMs < (mountedUntilMs ?? Infinity))).toEqual([]);
}

/** Agents on a node without power are not: they wait for it. */
async function everyPodReadyBut(node: string): Promise<void> {
  for (const workload of ["deployment/operator", "deployment/policy-engine"])
    await until(`a replica of ${workload} elsewhere than on ${node}`, async () => {
      const path = "jsonpath={.status.readyReplicas}";
      const ready = await tested.kubectl("-n", "tidemark-system", "get", workload, "--output", path);
      return Number(ready) > 0 ? true : undefined;
    });
}
