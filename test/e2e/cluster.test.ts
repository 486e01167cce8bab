import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { isAlive } from "../../demo/show/run/process-table.ts";
import type { KubeObject, Resource } from "../../src/contracts/kubernetes/object.ts";
import { NODES, type Node } from "../../src/contracts/kubernetes/resources.ts";
import { createCluster, removeCluster } from "../cluster/cluster.ts";
import type { Cluster } from "../cluster/cluster-state.ts";
import { startComponent, stopComponent } from "../cluster/components.ts";
import { nodeProgramName, powerOff, powerOn } from "../cluster/node.ts";
import { enterNode } from "../cluster/node-namespaces.ts";
import { nodePlaces } from "../cluster/places.ts";
import { nodeReady, readyNodes } from "../cluster/readiness.ts";
import { recordedNames, runningProcess } from "../cluster/recorded-process.ts";
import { runProgram } from "../cluster/run-program.ts";
import { waitFor } from "../harness/wait-for.ts";
import { type ClusterUnderTest, clusterOf, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn, itOn } from "./describe-on.ts";
import { PODS, type Pod, scriptPod } from "./pod.ts";
import { clusterTraces, holdNetworkNamespaces, NO_TRACES } from "./traces.ts";

/** A cluster's programs may have to be built first. */
const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 300_000;

const SERVICES: Resource<KubeObject & { spec: object }> = {
  group: "",
  version: "v1",
  plural: "services",
  kind: "Service",
  namespaced: true,
};

let tested: ClusterUnderTest;
let nodes: string[];

/** A server of TLS says this to who speaks without. */
const ASK_API_SERVER =
  'printf "GET / HTTP/1.0\\r\\n\\r\\n" | nc -w 10 "$KUBERNETES_SERVICE_HOST" "$KUBERNETES_SERVICE_PORT"';
const API_SERVER_ANSWER = "Client sent an HTTP request to an HTTPS server";

async function runPod(name: string, node: string, script: string): Promise<Pod> {
  await tested.client.create("e2e/pod", PODS, scriptPod(tested, name, node, script));
  return podIn(name, ["Succeeded", "Failed"]);
}

async function podIn(name: string, phases: readonly string[]): Promise<Pod> {
  return waitFor(
    `pod ${name} to be ${phases.join(" or ")}`,
    async () => {
      const pod = await tested.client.get(PODS, { namespace: tested.namespace, name });
      return pod !== undefined && phases.includes(pod.status?.phase ?? "") ? pod : undefined;
    },
    { limitMs: LIMIT_MS, intervalMs: 200, otherwise: () => tested.kubectl("describe", "pod", name) },
  );
}

const isReady = (node: Node | undefined): boolean =>
  node?.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ?? false;

async function nodeIs(name: string, ready: boolean): Promise<void> {
  await waitFor(
    `${name} to be ${ready ? "Ready" : "NotReady"}`,
    async () => (isReady(await tested.client.get(NODES, { name })) === ready ? true : undefined),
    { limitMs: LIMIT_MS, intervalMs: 200 },
  );
}

describeOn("any", "a cluster for tests", [], () => {
  beforeAll(async () => {
    tested = await startClusterUnderTest();
    nodes = (await tested.client.list(NODES)).items.map(({ metadata }) => metadata.name);
  }, BUILD_LIMIT_MS);

  afterAll(() => tested?.close(), LIMIT_MS);

  it("has two nodes or more, and all of them are Ready", async () => {
    expect(nodes.length).toBeGreaterThanOrEqual(2);
    expect((await tested.client.list(NODES)).items.filter((node) => !isReady(node))).toEqual([]);
  });

  it(
    "runs a pod on each node, which reaches the API server by its Service, and whose log can be read",
    async () => {
      await Promise.all(
        nodes.map(async (node) => {
          const name = `asks-from-${node}`;
          await runPod(name, node, ASK_API_SERVER);
          expect(await tested.kubectl("logs", name)).toContain(API_SERVER_ANSWER);
        }),
      );
    },
    LIMIT_MS,
  );

  it(
    "carries a connection to a pod of a Service from the same node, from another, and from that pod itself",
    async () => {
      const [first = "", second = ""] = nodes;
      const serve = "exec nc -ll -p 8080 -e echo here-i-am";
      await tested.client.create("e2e/pod", PODS, scriptPod(tested, "serves", first, serve));
      const { metadata } = await tested.client.create("e2e/service", SERVICES, {
        apiVersion: "v1",
        kind: "Service",
        metadata: { namespace: tested.namespace, name: "serves" },
        spec: { selector: { app: "serves" }, ports: [{ port: 80, targetPort: 8080 }] },
      });
      const call = `for i in $(seq 60); do nc -w 5 ${await addressOf(metadata.name)} 80 < /dev/null && exit; sleep 1; done; exit 1`;
      await podIn("serves", ["Running"]);
      await Promise.all([runPod("calls-near", first, call), runPod("calls-far", second, call)]);
      expect(await tested.kubectl("logs", "calls-near")).toBe("here-i-am\n");
      expect(await tested.kubectl("logs", "calls-far")).toBe("here-i-am\n");
      expect(await tested.kubectl("exec", "serves", "--", "sh", "-c", call)).toBe("here-i-am\n");
    },
    LIMIT_MS,
  );

  itOn(
    "ours",
    "counts a node as NotReady when its power is cut, and runs pods on it again when it is back",
    async () => {
      const cluster = clusterOf(tested);
      const [, node = ""] = cluster.nodes;
      const file = await loopDevicesOn(cluster, node);
      await powerOff(cluster, node);
      expect(devicesOver(file)).toEqual([]);
      await nodeIs(node, false);
      expect(await readyNodes(cluster)).not.toContain(node);
      await powerOn(cluster, node);
      await nodeReady(cluster, node);
      await nodeIs(node, true);
      await runPod("after-power", node, ASK_API_SERVER);
      expect(await tested.kubectl("logs", "after-power")).toContain(API_SERVER_ANSWER);
    },
    LIMIT_MS,
  );

  itOn(
    "ours",
    "goes on with pods as they are while kubelet or the API server is stopped",
    async () => {
      const cluster = clusterOf(tested);
      const [node = ""] = cluster.nodes;
      await tested.client.create("e2e/pod", PODS, scriptPod(tested, "stays", node, "exec sleep 1000000"));
      await podIn("stays", ["Running"]);
      const startedAt = await containerStart("stays");
      for (const component of [nodeProgramName(node, "kubelet"), "kube-apiserver"]) {
        await stopComponent(cluster, component);
        expect(runningProcess(cluster.places, component)).toBeUndefined();
        await startComponent(cluster, component);
      }
      // A kubelet that has just started finds its pods again one by one.
      const said = await waitFor(
        "kubelet to know its pod again",
        () => tested.kubectl("exec", "stays", "--", "echo", "alive"),
        { limitMs: LIMIT_MS, intervalMs: 500 },
      );
      expect(said).toBe("alive\n");
      expect(await containerStart("stays")).toBe(startedAt);
    },
    LIMIT_MS,
  );

  itOn(
    "own",
    "is made anew over one whose parts were killed, and leaves nothing behind when it is removed",
    async () => {
      const before = clusterOf(tested);
      for (const name of ["network", "forwarder", "etcd", "node1", "node2-containerd"])
        process.kill(runningProcess(before.places, name)?.pid ?? 0, "SIGKILL");
      const cluster = await createCluster(before.settings, () => undefined);
      const processes = recordedNames(cluster.places).map((name) => runningProcess(cluster.places, name));
      const file = await loopDevicesOn(cluster, "node1");
      const traces = clusterTraces(cluster.places);
      const letGo = holdNetworkNamespaces(traces);
      expect(traces.networkNamespaces.length).toBeGreaterThanOrEqual(1 + cluster.nodes.length);
      expect(traces.cgroups).not.toEqual([]);
      await removeCluster(cluster.places);
      expect(processes.filter((one) => one === undefined || isAlive(one))).toEqual([]);
      const left = clusterTraces(cluster.places, traces);
      letGo();
      expect(left).toEqual(NO_TRACES);
      expect(devicesOver(file)).toEqual([]);
    },
    LIMIT_MS,
  );
});

/** Two devices, as for a raw block volume: one over a file on the node's disk, and one over that. The file's name is no other's. */
async function loopDevicesOn({ places }: Cluster, node: string): Promise<string> {
  const [command, ...enter] = await enterNode(places, nodePlaces(places, node));
  const name = `member-${randomUUID()}.img`;
  const file = `/var/lib/${name}`;
  const script = `truncate -s 1M ${file}; losetup --find --show "$(losetup --find --show ${file})"`;
  await runProgram(command, [...enter, "sh", "-euc", script]);
  expect(devicesOver(name)).toHaveLength(1);
  return name;
}

/**
 * Known by the file, since a number that is free again is soon another suite's. It lasts for as long as a device lies over its own:
 * none is left there either.
 */
function devicesOver(file: string): string[] {
  return readdirSync("/sys/block").filter((name) => {
    try {
      return readFileSync(`/sys/block/${name}/loop/backing_file`, "utf8").includes(file);
    } catch {
      return false; // it is no loop device, or is attached to nothing
    }
  });
}

async function containerStart(pod: string): Promise<string> {
  const path = "jsonpath={.status.containerStatuses[0].state.running.startedAt}";
  return tested.kubectl("get", "pod", pod, "--output", path);
}

async function addressOf(service: string): Promise<string> {
  const found = await tested.client.get(SERVICES, { namespace: tested.namespace, name: service });
  return (found?.spec as { clusterIP: string }).clusterIP;
}
