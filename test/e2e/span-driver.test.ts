// What span.tidemark.dev answers as a CSI driver on a real cluster: the whole of csi-sanity, and what users are told where a class,
// a quota or the members' driver does not give what is needed. Nothing is lost by any of it, and all goes on once it is mended.
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { FILESYSTEMS } from "../../src/contracts/kinds/filesystem.ts";
import { CSI_NODES, PERSISTENT_VOLUME_CLAIMS } from "../../src/contracts/kubernetes/resources.ts";
import { MEMBER_NAMESPACE, SPAN_DRIVER, TOPOLOGY_NODE } from "../../src/contracts/names.ts";
import { GIB } from "../../src/contracts/quantities/quantity.ts";
import { enterNode } from "../cluster/node-namespaces.ts";
import { KUBELET_DIRECTORY } from "../cluster/node-settings.ts";
import { nodePlaces } from "../cluster/places.ts";
import { runProgram } from "../cluster/run-program.ts";
import { runCsiSanity, type SanityReport } from "../harness/csi-sanity.ts";
import { waitFor } from "../harness/wait-for.ts";
import { MEMBER_CLASS } from "../member-driver/config.ts";
import { installMemberDriver } from "../member-driver/install.ts";
import { readRpcLog } from "../member-driver/rpc-log.ts";
import { type Fault, writeSwitches } from "../member-driver/switches.ts";
import { applyObject } from "./apply-object.ts";
import { claimingPod, claimOf, spanClass } from "./claiming-pod.ts";
import { type ClusterUnderTest, clusterOf, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn } from "./describe-on.ts";
import { install, loadImages, logsOf, SYSTEM_NAMESPACE } from "./installed-tidemark.ts";
import { whyNotPlaced } from "./placed-pods.ts";
import { PODS } from "./pod.ts";
import { spanObjects, spanTracesOnNodes } from "./span-traces.ts";
import { whatIsThere } from "./what-is-there.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 420_000;
const SANITY_LIMIT_MS = 1_200_000;
const CLASS = "e2e-span";

let tested: ClusterUnderTest;
let memberDirectory = "";

const otherwise = (): Promise<string> => whatIsThere(tested, memberDirectory);

async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  return waitFor(what, look, { limitMs: LIMIT_MS / 2, intervalMs: 300, otherwise });
}

/** The Warning that a user sees on the claim. */
async function claimIsTold(name: string, text: string): Promise<string> {
  const select = `involvedObject.kind=PersistentVolumeClaim,involvedObject.name=${name},type=Warning`;
  return until(`an Event of claim ${name} with "${text}"`, async () => {
    const said = await tested.kubectl(
      "get",
      "events",
      "--field-selector",
      select,
      "-o",
      "jsonpath={.items[*].message}",
    );
    return said.includes(text) ? said : undefined;
  });
}

async function stalledIs(name: string, status: "True" | "False", text = ""): Promise<void> {
  await until(`Filesystem ${name} to be ${status === "True" ? "" : "not "}Stalled: ${text}`, async () => {
    const filesystem = await tested.client.get(FILESYSTEMS, { namespace: tested.namespace, name });
    const stalled = filesystem?.status?.conditions?.find(({ type }) => type === "Stalled");
    return stalled?.status === status && stalled.message.includes(text) ? true : undefined;
  });
}

async function podRuns(name: string): Promise<void> {
  await until(`pod ${name} to run`, async () => {
    const pod = await tested.client.get(PODS, { namespace: tested.namespace, name });
    return pod?.status?.phase === "Running" ? true : undefined;
  });
}

async function use(name: string, storage: string, className = CLASS): Promise<void> {
  await applyObject(tested, claimOf(name, className, storage));
  await applyObject(tested, claimingPod(name, tested.image, name));
}

const inPod = (pod: string, script: string): Promise<string> => tested.kubectl("exec", pod, "--", "sh", "-ec", script);

async function capacityIs(pod: string, mib: number): Promise<void> {
  await until(`${pod} to have ${mib} MiB`, async () =>
    Number(await inPod(pod, "df -m /data | awk 'NR == 2 { print $2 }'")) === mib ? true : undefined,
  );
}

/** Deletes pods and claims, and waits until nothing of any span is left. */
async function removeAll(): Promise<void> {
  await tested.kubectl("delete", "pod", "--all", "--wait");
  await tested.kubectl("delete", "pvc", "--all", "--timeout=180s");
  let left: string[] = [];
  await waitFor(
    "nothing to be left",
    async () => {
      left = [...(await spanObjects(tested)), ...(await spanTracesOnNodes(clusterOf(tested)))];
      return left.length === 0 ? true : undefined;
    },
    { limitMs: LIMIT_MS / 2, intervalMs: 500, otherwise: async () => `${left.join("\n")}\n${await otherwise()}` },
  );
}

const driverVolumes = (): string[] => readdirSync(memberDirectory).filter((file) => file.endsWith(".volume.json"));

function faults(...list: readonly Fault[]): void {
  writeSwitches(memberDirectory, { faults: [...list] });
}

// It plays tricks on the members' driver, and enters nodes.
describeOn("ours", "the driver of spans in a cluster", ["bundle", "csi-sanity"], () => {
  beforeAll(async () => {
    tested = await startClusterUnderTest();
    memberDirectory = (await installMemberDriver(tested)) ?? "";
    await loadImages(tested);
    await install(tested);
    await applyObject(tested, spanClass(CLASS));
  }, BUILD_LIMIT_MS);
  afterAll(() => tested?.close(), LIMIT_MS);

  describe("a span that cannot be had", () => {
    afterEach(async () => {
      writeSwitches(memberDirectory, {});
      await removeAll();
    }, LIMIT_MS);

    it.each<[string, Record<string, string>, string]>([
      ["unknown-parameter", { maxMember: "2" }, "unknown StorageClass parameters maxMember"],
      ["too-many-members", { maxMembers: "5" }, 'maxMembers is "5"; it is a number from 1 to 4'],
      ["no-member", { maxMembers: "0" }, 'maxMembers is "0"; it is a number from 1 to 4'],
      ["no-such-class", { memberStorageClassName: "nowhere" }, 'there is no StorageClass "nowhere"'],
      ["of-its-own", { memberStorageClassName: "tidemark-loop" }, "Tidemark's own volumes cannot be members"],
      ["wrong-type", { "csi.storage.k8s.io/fstype": "ext4" }, "the backend span needs btrfs"],
    ])(
      "says why on its claim, and leaves nothing behind: %s",
      async (name, parameters, expected) => {
        await applyObject(tested, spanClass(name, parameters, "Immediate"));
        await applyObject(tested, claimOf(name, name, "1Gi"));
        expect(await claimIsTold(name, expected)).toContain("code = InvalidArgument");
        const objects = await spanObjects(tested);
        expect(objects.filter((object) => !object.startsWith("Filesystem "))).toEqual([]);
      },
      LIMIT_MS,
    );

    it(
      "names the member class whose driver has no block volumes, and leaves nothing behind",
      async () => {
        writeSwitches(memberDirectory, { block: false });
        await use("no-block", "1Gi");
        await stalledIs("no-block", "True", "block volumes are not supported by this class");
        await claimIsTold("no-block", `class ${MEMBER_CLASS}`);
      },
      LIMIT_MS,
    );

    it(
      "tells that its members' driver is full, and leaves nothing behind",
      async () => {
        writeSwitches(memberDirectory, { capacityBytes: GIB });
        await use("full", "2Gi");
        await claimIsTold("full", "code = ResourceExhausted");
        writeSwitches(memberDirectory, {});
        await podRuns("full");
      },
      LIMIT_MS,
    );

    it(
      "comes through a driver that fails, is slow and loses its replies, with one member and no more",
      async () => {
        const before = readRpcLog(memberDirectory).length;
        faults(
          { rpc: "CreateVolume", refuse: "INTERNAL", times: 2 },
          { rpc: "CreateVolume", loseReply: "cut", times: 1 },
          { rpc: "ControllerPublishVolume", refuse: "UNAVAILABLE", times: 2 },
          { rpc: "ControllerPublishVolume", delayMs: 5000, loseReply: "cut", times: 1 },
          { rpc: "NodeStageVolume", refuse: "INTERNAL", times: 2 },
          { rpc: "NodePublishVolume", loseReply: "cut", times: 1 },
        );
        await use("patient", "1Gi");
        await podRuns("patient");
        expect(driverVolumes()).toHaveLength(1);
        const refused = readRpcLog(memberDirectory)
          .slice(before)
          .filter(({ fault }) => fault !== undefined);
        expect(new Set(refused.map(({ rpc }) => rpc))).toEqual(
          new Set(["CreateVolume", "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"]),
        );
      },
      LIMIT_MS,
    );

    it(
      "is refused by a quota on members, and is there once it fits",
      async () => {
        await quota(MEMBER_NAMESPACE, "requests.storage", "100Mi");
        await use("over-quota", "1Gi");
        await claimIsTold("over-quota", "exceeded quota: members");
        await tested.kubectl("-n", MEMBER_NAMESPACE, "delete", "resourcequota", "members");
        await podRuns("over-quota");
      },
      LIMIT_MS,
    );
  });

  describe("a span in use", () => {
    afterAll(async () => {
      writeSwitches(memberDirectory, {});
      await removeAll();
    }, LIMIT_MS);

    it(
      "is Stalled while a quota refuses it a member, loses nothing, and is extended once it fits",
      async () => {
        await use("growing", "1Gi");
        await podRuns("growing");
        await inPod("growing", "cd /data; dd if=/dev/urandom of=file bs=1M count=64 conv=fsync; sha256sum file > sum");
        await quota(MEMBER_NAMESPACE, "requests.storage", "1536Mi");
        await request("growing", "2Gi");
        await stalledIs("growing", "True", "exceeded quota: members");
        await inPod("growing", "cd /data; sha256sum -c sum; echo on > more; sync");
        await tested.kubectl("-n", MEMBER_NAMESPACE, "delete", "resourcequota", "members");
        await capacityIs("growing", 2048);
        await stalledIs("growing", "False");
        await inPod("growing", "cd /data; sha256sum -c sum");
      },
      LIMIT_MS,
    );

    it(
      "stays within the quota of its namespace on the members' class, and is extended once that is gone",
      async () => {
        await quota(tested.namespace, `${MEMBER_CLASS}.storageclass.storage.k8s.io/requests.storage`, "2Gi");
        await request("growing", "3Gi");
        await claimIsTold("growing", "ResourceQuota members allows");
        await tested.kubectl("delete", "resourcequota", "members");
        await capacityIs("growing", 3072);
        await inPod("growing", "cd /data; sha256sum -c sum");
      },
      LIMIT_MS,
    );

    it(
      "says what its members' driver refuses on the node, goes on meanwhile, and is extended once it does not",
      async () => {
        faults({ rpc: "NodeStageVolume", refuse: "FAILED_PRECONDITION" });
        await request("growing", "4Gi");
        await until("the Filesystem to say so", async () =>
          (await tested.kubectl("describe", "filesystem", "growing")).includes("FAILED_PRECONDITION")
            ? true
            : undefined,
        );
        await inPod("growing", "cd /data; sha256sum -c sum; echo on > more; sync");
        writeSwitches(memberDirectory, {});
        await capacityIs("growing", 4096);
        await inPod("growing", "cd /data; sha256sum -c sum");
      },
      LIMIT_MS,
    );
  });

  describe("a span whose class allows one zone", () => {
    const [WEST, EAST] = ["node1", "node2"] as const;

    beforeAll(async () => {
      await tested.kubectl("label", "node", WEST, `${ZONE}=west`);
      await tested.kubectl("label", "node", EAST, `${ZONE}=east`);
      await registerAnew(ZONE);
    }, LIMIT_MS);
    afterAll(async () => {
      await removeAll();
      await tested.kubectl("label", "node", WEST, EAST, `${ZONE}-`);
      await registerAnew();
    }, LIMIT_MS);

    it(
      "is made on a node of it by the stock scheduler and csi-provisioner, and of a zone without nodes not at all",
      async () => {
        await applyObject(tested, inZone("e2e-east", "east"));
        await applyObject(tested, inZone("e2e-north", "north"));
        await use("eastern", "1Gi", "e2e-east");
        await use("northern", "1Gi", "e2e-north");
        await podRuns("eastern");
        const nodeOf = async (name: string) =>
          (await tested.client.get(PODS, { namespace: tested.namespace, name }))?.spec.nodeName;
        expect(await nodeOf("eastern")).toBe(EAST);
        await until("the scheduler to say that no node is there", async () => {
          const pod = await tested.client.get(PODS, { namespace: tested.namespace, name: "northern" });
          return whyNotPlaced(pod ?? {}) === "" ? undefined : true;
        });
        expect(await nodeOf("northern")).toBeUndefined();
        const made = (await spanObjects(tested)).filter((object) => object.startsWith("PersistentVolumeClaim "));
        expect(made).toHaveLength(1);
      },
      LIMIT_MS,
    );
  });

  describe("csi-sanity on span.tidemark.dev", () => {
    const CANARY = "canary-7b3e9a";
    let report: SanityReport;
    const withStatus = (status: string) => report.specs.filter((spec) => spec.status === status);

    beforeAll(async () => {
      report = await runSanity(CANARY);
      console.info(report.summary);
    }, SANITY_LIMIT_MS);

    it("passes every spec that it runs", () => {
      expect(withStatus("failed")).toEqual([]);
      expect(withStatus("passed")).toHaveLength(SPECS.passed);
    });

    it("skips only what the driver does not have", () => {
      const counts: Record<string, number> = {};
      for (const { message } of withStatus("skipped")) {
        const why = message.replace("skipped - ", "");
        counts[why] = (counts[why] ?? 0) + 1;
      }
      expect(counts).toEqual(SKIPPED);
      expect(report.specs).toHaveLength(SPECS.passed + SPECS.skipped + SPECS.pending);
    });

    it(
      "leaves nothing behind, and no secret in a log",
      async () => {
        await removeAll();
        expect(driverVolumes()).toEqual([]);
        expect((await logsOf(tested)).split("\n").filter((line) => line.includes(CANARY))).toEqual([]);
      },
      LIMIT_MS,
    );
  });
});

const ZONE = "topology.kubernetes.io/zone";

function inZone(name: string, zone: string): object {
  const allowedTopologies = [{ matchLabelExpressions: [{ key: ZONE, values: [zone] }] }];
  return { ...spanClass(name), allowedTopologies };
}

/** Agents say where their nodes are when kubelet registers the driver; resolves once each node has it with these keys beside its own. */
async function registerAnew(...keys: readonly string[]): Promise<void> {
  // A restart by rollout would leave its mark on the DaemonSet.
  const agents = "app.kubernetes.io/component=agent";
  await tested.kubectl("-n", SYSTEM_NAMESPACE, "delete", "pod", "--wait", "--selector", agents);
  await tested.kubectl("-n", SYSTEM_NAMESPACE, "rollout", "status", "daemonset/agent", "--timeout=180s");
  await until(`the driver to be registered with ${keys.join(", ")}`, async () => {
    const { items } = await tested.client.list(CSI_NODES);
    const registered = items.map(
      ({ spec }) => spec.drivers.find((driver) => driver.name === SPAN_DRIVER)?.topologyKeys,
    );
    const wanted = JSON.stringify([...keys, TOPOLOGY_NODE].sort());
    return registered.every((found) => JSON.stringify([...(found ?? [])].sort()) === wanted) ? true : undefined;
  });
}

/** csi-test 5.6.0. */
const SPECS = { passed: 57, skipped: 45, pending: 1 };
/** Specs by what csi-sanity says of them. */
const SKIPPED: Readonly<Record<string, number>> = {
  "CreateSnapshot not supported": 6,
  "DeleteSnapshot not supported": 3,
  "GetSnapshot not supported": 3,
  "ListSnapshots not supported": 7,
  "Snapshot not supported": 2,
  "GroupControllerService not supported": 6,
  "Volume Cloning not supported": 2,
  "ControllerModifyVolume not supported": 6,
  "Modify volume not supported": 1,
  "Modify Volume not supported": 1,
  "ControllerPublishVolume.readonly field not supported": 1,
  // How many volumes a node takes the members' driver says.
  "testnodevolumeattachlimit not enabled": 1,
  // Of CSI 1.13; in 1.12 the condition is a part of NodeGetVolumeStats.
  "ControllerGetVolumeHealth not supported": 2,
  "ControllerListVolumeHealth not supported": 1,
  "NodeGetVolumeHealth not supported": 2,
  "NodeGetStorageHealth not supported": 1,
};

const SECRETS = [
  ...["CreateVolume", "DeleteVolume", "ControllerPublishVolume", "ControllerUnpublishVolume"],
  ...["ControllerValidateVolumeCapabilities", "NodeStageVolume", "NodePublishVolume", "ControllerExpandVolume"],
];

/** On the node of one of the operator's replicas, since its socket is in that node's kubelet's directory. */
async function runSanity(canary: string): Promise<SanityReport> {
  const { places } = clusterOf(tested);
  const selector = { namespace: SYSTEM_NAMESPACE, labelSelector: "app.kubernetes.io/component=operator" };
  const [operator] = (await tested.client.list(PODS, selector)).items;
  const enter = await enterNode(places, nodePlaces(places, operator?.spec.nodeName ?? ""));
  const run = join(KUBELET_DIRECTORY, "pods", operator?.metadata.uid ?? "", "volumes/kubernetes.io~empty-dir/run");
  // A socket's own path may have 107 characters.
  const controllerSocket = "/run/span-controller.sock";
  const [command, ...args] = enter;
  await runProgram(command, [...args, "ln", "-sfn", join(run, "span-csi-controller.sock"), controllerSocket]);
  const directory = join(places.directory, "csi-sanity");
  mkdirSync(directory, { recursive: true });
  return runCsiSanity({
    directory,
    enter,
    controllerSocket,
    nodeSocket: join(KUBELET_DIRECTORY, "plugins", SPAN_DRIVER, "csi.sock"),
    kubeletDirectory: KUBELET_DIRECTORY,
    parameters: {
      backend: "span",
      memberStorageClassName: MEMBER_CLASS,
      strategy: "AddMember",
      "csi.storage.k8s.io/pvc/namespace": tested.namespace,
      "csi.storage.k8s.io/pvc/name": "sanity",
    },
    secrets: Object.fromEntries(SECRETS.map((call) => [`${call}Secret`, { password: `${canary}-${call}` }])),
    volumeBytes: GIB,
    expandedBytes: 2 * GIB,
    // Under pods the node's kubelet removes what belongs to no pod.
    flags: { "csi.mountdir": join(KUBELET_DIRECTORY, "plugins", "sanity-targets") },
  });
}

async function quota(namespace: string, resource: string, amount: string): Promise<void> {
  await tested.kubectl("-n", namespace, "create", "quota", "members", `--hard=${resource}=${amount}`);
}

async function request(claim: string, storage: string): Promise<void> {
  const change = { spec: { resources: { requests: { storage } } } };
  await tested.client.mergePatch(
    "e2e/request",
    PERSISTENT_VOLUME_CLAIMS,
    { namespace: tested.namespace, name: claim },
    change,
  );
}
