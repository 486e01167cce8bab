// A span's whole life on a real Kubernetes, over a CSI driver that knows nothing of Tidemark: its pod is scheduled, written to,
// moved, and its claim deleted, as users do it. MEMBER_DRIVER and MEMBER_CLASS name another driver.
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { fsidOf, volumeUIDOf } from "../../src/contracts/identity.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../src/contracts/kinds/filesystem-layout.ts";
import { NODES } from "../../src/contracts/kubernetes/resources.ts";
import { enterNode } from "../cluster/node-namespaces.ts";
import { nodePlaces } from "../cluster/places.ts";
import { runProgram } from "../cluster/run-program.ts";
import { waitFor } from "../harness/wait-for.ts";
import { installMemberDriver } from "../member-driver/install.ts";
import { applyObject } from "./apply-object.ts";
import { breathingPolicy } from "./breathing-policy.ts";
import { spanClass } from "./claiming-pod.ts";
import { type ClusterUnderTest, clusterOf, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn, itOn } from "./describe-on.ts";
import { everyPodReady, install, loadImages, logsOf, podNames, SYSTEM_NAMESPACE } from "./installed-tidemark.ts";
import { watchMounts } from "./mount-watch.ts";
import { PODS } from "./pod.ts";
import { memberObjects, spanObjects, spanTracesOnNodes } from "./span-traces.ts";
import { statefulWriter, WRITER, WRITER_CLAIM, WRITER_POD, type Writer, writerIn } from "./stateful-writer.ts";
import { whatIsThere } from "./what-is-there.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 420_000;
const CLASS = "e2e-span";

const LIMITS = { min: "2Gi", max: "8Gi", minAvailable: "128Mi" };
const FILE_MIB = 64;
const files = (from: number, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `f${from + index}`);

let tested: ClusterUnderTest;
let writer: Writer;
let memberDirectory: string | undefined;

const otherwise = (): Promise<string> => whatIsThere(tested, memberDirectory);

async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  return waitFor(what, look, { limitMs: LIMIT_MS / 2, intervalMs: 300, otherwise });
}

async function capacityIs(what: string, holds: (mib: number) => boolean): Promise<void> {
  await until(`the filesystem to ${what}`, async () => (holds(await writer.capacityMiB()) ? true : undefined));
}

async function podNode(): Promise<string> {
  const pod = await tested.client.get(PODS, { namespace: tested.namespace, name: WRITER_POD });
  return pod?.spec.nodeName ?? "";
}

async function theLayout(): Promise<FilesystemLayout> {
  const [layout, ...others] = (await tested.client.list(FILESYSTEM_LAYOUTS)).items;
  if (layout === undefined || others.length > 0) throw new Error(`there are ${others.length + 1} layouts, not one`);
  return layout;
}

/** The objects of these members and of no others, all attached to the node. */
async function membersAre(names: readonly string[], node: string): Promise<void> {
  const wanted = { claims: names, volumes: names, attachments: names.map((name) => `${name} to ${node}: attached`) };
  let seen: object = {};
  await waitFor(
    `the members to be ${names.join(", ")} on ${node}`,
    async () => {
      seen = await memberObjects(tested);
      return JSON.stringify(seen) === JSON.stringify(wanted) ? true : undefined;
    },
    {
      limitMs: LIMIT_MS / 2,
      intervalMs: 300,
      otherwise: async () => `${JSON.stringify(seen)}\n${await otherwise()}`,
    },
  );
}

async function onNode(node: string, ...command: readonly string[]): Promise<string> {
  const { places } = clusterOf(tested);
  const [enter, ...args] = await enterNode(places, nodePlaces(places, node));
  return runProgram(enter, [...args, ...command]);
}

describeOn("any", "a span", ["bundle"], () => {
  beforeAll(async () => {
    tested = await startClusterUnderTest();
    writer = writerIn(tested);
    memberDirectory = await installMemberDriver(tested);
    await loadImages(tested);
    await install(tested);
  }, BUILD_LIMIT_MS);

  afterAll(() => tested?.close(), LIMIT_MS);

  it(
    "gives a StatefulSet's pod a filesystem on a claim of another driver",
    async () => {
      await applyObject(tested, spanClass(CLASS));
      await applyObject(tested, breathingPolicy(LIMITS));
      await applyObject(tested, statefulWriter(tested.image, CLASS, "2Gi"));
      await writer.running();
      expect(await writer.capacityMiB()).toBe(2048);
      await writer.write(files(0, 4), FILE_MIB);
      expect(await writer.damaged()).toBe("");
      await membersAre(["m0"], await podNode());
    },
    LIMIT_MS,
  );

  it(
    "is extended by a member when its policy says so",
    async () => {
      await writer.write(files(4, 22), FILE_MIB);
      await capacityIs("have 3 GiB", (mib) => mib === 3072);
      await writer.write(files(26, 6), FILE_MIB);
      expect(await writer.damaged()).toBe("");
      await membersAre(["m0", "m1"], await podNode());
      await until("the Filesystem to tell by which rule", async () =>
        (await tested.kubectl("describe", "filesystem", WRITER_CLAIM)).includes("extend-at-80") ? true : undefined,
      );
    },
    LIMIT_MS,
  );

  itOn(
    "ours",
    "is on one node at every moment while that node is drained, and whole on the next one",
    async () => {
      const from = await podNode();
      const handle = (await theLayout()).metadata.name;
      const watch = await watchMounts(clusterOf(tested), handle);
      await tested.kubectl("drain", from, "--ignore-daemonsets", "--delete-emptydir-data", "--force");
      await writer.running();
      const to = await podNode();
      const { changes, samples, longestGapMs } = await watch.end();
      console.info(`${samples} looks at each node's mounts, at most ${longestGapMs.toFixed(0)} ms apart`);
      expect(to).not.toBe(from);
      expect(changes).toEqual([[from], [], [to]]);
      expect(await writer.capacityMiB()).toBe(3072);
      expect(await writer.damaged()).toBe("");
      await membersAre(["m0", "m1"], to);
      await tested.kubectl("uncordon", from);
    },
    LIMIT_MS,
  );

  itOn("ours", "is seen on a second node where somebody mounts it there by hand", async () => {
    const node = await podNode();
    const other = (await tested.client.list(NODES)).items
      .map(({ metadata }) => metadata.name)
      .find((one) => one !== node);
    const { name: handle } = (await theLayout()).metadata;
    const watch = await watchMounts(clusterOf(tested), handle);
    const [device] = (await onNode(node, "ls", `/sys/fs/btrfs/${fsidOf(volumeUIDOf(handle) ?? "")}/devices`)).split(
      "\n",
    );
    const script = `mkdir -p /run/planted; mount -t btrfs /dev/${device} /run/planted; sleep 1; umount /run/planted; sleep 1`;
    await onNode(other ?? "", "sh", "-euc", script);
    expect((await watch.end()).changes.map((nodes) => nodes.length)).toEqual([1, 2, 1]);
  });

  it(
    "is shrunk by a member that holds data, of which nothing is left then",
    async () => {
      await writer.remove([...files(0, 2), ...files(4, 24)]);
      await capacityIs("have 2 GiB", (mib) => mib === 2048);
      expect(await writer.damaged()).toBe("");
      await membersAre(["m0"], await podNode());
      expect(await tested.kubectl("get", "events", "--all-namespaces")).not.toMatch(/read-only|Read-only/);
    },
    LIMIT_MS,
  );

  it(
    "goes on while operator and agents are killed, and is extended once they are back",
    async () => {
      for (const component of ["operator", "agent"]) {
        const pods = await podNames(tested, `app.kubernetes.io/component=${component}`);
        await tested.kubectl("-n", SYSTEM_NAMESPACE, "delete", "pod", "--grace-period=0", "--force", ...pods);
      }
      await writer.write(files(40, 22), FILE_MIB);
      await capacityIs("have 3 GiB again", (mib) => mib === 3072);
      await everyPodReady(tested);
      expect(await writer.damaged()).toBe("");
      await membersAre(["m0", "m2"], await podNode());
    },
    LIMIT_MS,
  );

  it(
    "leaves nothing of a claim that is deleted, in the API or on a node",
    async () => {
      await tested.kubectl("delete", "statefulset", WRITER, "--wait");
      await tested.kubectl("delete", "pvc", WRITER_CLAIM, "--timeout=180s");
      const left = async (): Promise<string[]> => [
        ...(await spanObjects(tested)),
        ...(tested.cluster === undefined ? [] : await spanTracesOnNodes(tested.cluster)),
      ];
      let found: string[] = [];
      await waitFor(
        "nothing to be left",
        async () => {
          found = await left();
          return found.length === 0 ? true : undefined;
        },
        {
          limitMs: LIMIT_MS / 2,
          intervalMs: 500,
          otherwise: async () => `${found.join("\n")}\n${await otherwise()}`,
        },
      );
    },
    LIMIT_MS,
  );

  it("does nothing that its roles do not allow", async () => {
    const refused = /forbidden|cannot (get|list|watch|create|update|patch|delete)/i;
    expect((await logsOf(tested)).split("\n").filter((line) => refused.test(line))).toEqual([]);
  });
});
