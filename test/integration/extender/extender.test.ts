// The bundled process against an API server, asked over HTTP as kube-scheduler asks.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { freePort } from "../../../demo/show/run/free-port.ts";
import { bootstrap } from "../../../demo/stand-ins/bootstrap.ts";
import { NODE_STORAGES } from "../../../src/contracts/kinds/node-storage.ts";
import type { KubeObject, Resource } from "../../../src/contracts/kubernetes/object.ts";
import {
  CSI_NODES,
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  PODS,
  type Pod,
  STORAGE_CLASSES,
} from "../../../src/contracts/kubernetes/resources.ts";
import { LOCAL_DRIVER, SELECTED_NODE } from "../../../src/contracts/names.ts";
import { type ConnectedKubeClient, createKubeClient } from "../../../src/platform/kube/client/http-client.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { buildClass, buildCsiNode, buildNodeStorage } from "../../builders/placement.ts";
import { type ApiUnderTest, startApiUnderTest } from "../../harness/api-under-test.ts";
import { BUNDLE_PATH, type BundleProcess, createBundleProcess } from "../../harness/bundle-process.ts";
import { describeReal } from "../../harness/real-parts.ts";
import { waitFor } from "../../harness/wait-for.ts";

const APPLY = { fieldManager: "test", force: true } as const;
const namespace = "default";

describeReal("the extender as a process", ["bundle"], () => {
  let directory: string;
  let controlPlane: ApiUnderTest;
  let client: ConnectedKubeClient;
  let extender: BundleProcess;
  let port: number;
  let httpPort: number;

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-extender-test-"));
    const log = createLogger("test", "silent");
    controlPlane = await startApiUnderTest({ port: 0, log });
    client = createKubeClient({ connection: { server: controlPlane.url }, effects: directEffects, log });
    await bootstrap(client, {
      crdDirectory: "kustomize/foundation/crds",
      nodeName: "node-0",
      initialSize: "1Gi",
      fsType: "btrfs",
    });
    await client.create("test/class", STORAGE_CLASSES, buildClass("lvm", { backend: "lvm" }));
    await addNode("node-1", "15Gi");
    await addNode("node-2", "4Gi");
    [port, httpPort] = [await freePort(), await freePort()];
    const flags = [
      "--http-host",
      "127.0.0.1",
      "--http-port",
      String(httpPort),
      "--extender-port",
      String(port),
      "--extender-tls",
      "Off",
      "--start-delay",
      "0s",
    ];
    extender = createBundleProcess(directory, "extender", ["extender", "--server", controlPlane.url, ...flags]);
    // The heap that its 1 GiB leaves it, less what 50,000 volumes take of it.
    extender.start({ NODE_OPTIONS: "--max-old-space-size=200" });
    extender.firstLine().catch(() => undefined);
    await waitFor("a ready extender", async () => ((await get("/readyz")).status === 200 ? true : undefined), {
      otherwise: () => extender.log(),
    });
  });
  afterAll(async () => {
    await extender?.stop();
    await client?.close();
    await controlPlane?.close();
    rmSync(directory, { recursive: true, force: true });
  });

  async function apply<T extends KubeObject>(resource: Resource<T>, object: KubeObject, subresource?: "status") {
    const { apiVersion, kind, metadata, ...rest } = object;
    const name = metadata.namespace === undefined ? { name: metadata.name } : { name: metadata.name, namespace };
    const labels = metadata.labels === undefined ? {} : { labels: metadata.labels };
    await client.apply(
      "test/object",
      resource,
      { apiVersion, kind, metadata: { ...name, ...labels }, ...rest },
      {
        ...APPLY,
        ...(subresource === undefined ? {} : { subresource }),
      },
    );
  }

  async function addNode(name: string, free: string): Promise<void> {
    await apply(NODES, { apiVersion: "v1", kind: "Node", metadata: { name } });
    await apply(CSI_NODES, buildCsiNode(name, { drivers: [LOCAL_DRIVER] }));
    const storage = buildNodeStorage(name, { free });
    await apply(NODE_STORAGES, { ...storage, spec: {}, status: undefined } as KubeObject);
    await apply(NODE_STORAGES, storage, "status");
  }

  async function addClaimAndPod(name: string, request = "10Gi") {
    const spec = {
      accessModes: ["ReadWriteOnce" as const],
      storageClassName: "lvm",
      resources: { requests: { storage: request } },
    };
    await client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { namespace, name },
      spec,
    });
    const volumes = [{ name: "data", persistentVolumeClaim: { claimName: name } }];
    return client.create("test/pod", PODS, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { namespace, name },
      spec: { containers: [{ name: "main", image: "none" }], volumes },
    });
  }

  async function get(path: string, at = httpPort) {
    const answer = await fetch(`http://127.0.0.1:${at}${path}`);
    return { status: answer.status, text: await answer.text() };
  }

  async function ask(path: string, body: string | object) {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
      method: "POST",
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
    const text = await answer.text();
    return { status: answer.status, text, json: answer.ok ? (JSON.parse(text) as Record<string, unknown>) : undefined };
  }

  const NodeNames = ["node-1", "node-2", "nowhere"];

  it("answers by names which nodes fit, each other one with a reason, and scores from 0 to 10", async () => {
    const Pod = await addClaimAndPod("first");
    const answered = await waitFor("the claim in the extender's caches", async () => {
      const { json } = await ask("/filter", { Pod, Nodes: null, NodeNames });
      return JSON.stringify(json).includes("does not exist") ? undefined : json;
    });
    expect(answered).toEqual({
      NodeNames: ["node-1"],
      FailedNodes: {},
      FailedAndUnresolvableNodes: {
        "node-2": "device class ssd: 10Gi needed, at most 4Gi free here",
        nowhere: "the node is unknown to Tidemark: it was just added, or is gone",
      },
      Error: "",
    });
    const { text } = await ask("/prioritize", { Pod, NodeNames: ["node-1"] });
    const answer = JSON.parse(text) as { Score: number }[];
    expect(answer).toEqual([{ Host: "node-1", Score: expect.any(Number) }]);
    const [scored] = answer;
    expect(scored?.Score).toBeGreaterThan(0);
    expect(scored?.Score).toBeLessThanOrEqual(10);
  });

  it("counts a pod that was answered before, from the answer on and from its claim's selected node on", async () => {
    const Pod = await addClaimAndPod("second");
    const look = async () => {
      const { json } = await ask("/filter", { Pod, NodeNames: ["node-1"] });
      return Object.values({
        ...(json?.["FailedNodes"] as object),
        ...(json?.["FailedAndUnresolvableNodes"] as object),
      })[0] as string;
    };
    await waitFor("the hold of the first pod", async () =>
      (await look())?.includes("at most 5Gi free here while other pods are being placed") ? true : undefined,
    );
    const patch = { metadata: { annotations: { [SELECTED_NODE]: "node-1" } } };
    await client.mergePatch("test/select", PERSISTENT_VOLUME_CLAIMS, { namespace, name: "first" }, patch);
    await waitFor("the reservation of the first pod", async () =>
      (await look()) === "device class ssd: 10Gi needed, at most 5Gi free here" ? true : undefined,
    );
    await client.delete("test/delete", PODS, { namespace, name: "first" });
    await client.delete("test/delete", PERSISTENT_VOLUME_CLAIMS, { namespace, name: "first" });
    await waitFor("the room of the pod that is gone", async () => ((await look()) === undefined ? true : undefined));
  });

  describe("a forged question", () => {
    let real: Pod;
    const holds = async (): Promise<string> =>
      /ledger_entries\{kind="hold"\} (\d+)/.exec((await get("/metrics")).text)?.[1] ?? "";
    const asked = (pod: Pod) => ask("/filter", { Pod: pod, NodeNames: ["node-1"] });

    beforeAll(async () => {
      real = await addClaimAndPod("victim", "3Gi");
      await addClaimAndPod("unbound", "3Gi");
      await waitFor("the pod's claim in the caches", async () =>
        JSON.stringify((await asked(real)).json).includes('Error":""') ? true : undefined,
      );
    });

    const forgeries: readonly (readonly [string, (pod: Pod) => Pod])[] = [
      [
        "of another UID",
        (pod) => ({ ...pod, metadata: { ...pod.metadata, uid: "11111111-1111-4111-8111-111111111111" } }),
      ],
      [
        "of a pod that is not there, with a claim that is",
        (pod) => ({ ...pod, metadata: { ...pod.metadata, name: "no" } }),
      ],
      [
        "of a pod that is not there, with a claim that is not",
        (pod) => ({ ...pod, metadata: { ...pod.metadata, name: "no" }, spec: claiming("no") }),
      ],
      ["of other claims", (pod) => ({ ...pod, spec: claiming("unbound") })],
    ];
    const claiming = (claimName: string): Pod["spec"] => ({
      containers: [],
      volumes: [{ name: "data", persistentVolumeClaim: { claimName } }],
    });

    it.each(forgeries)("%s holds nothing, releases nothing, and is answered like all others", async (_name, forge) => {
      const before = await holds();
      const { json } = await asked(forge(real));
      expect(json).toEqual({
        NodeNames: [],
        FailedNodes: {},
        FailedAndUnresolvableNodes: {},
        Error: "the pod is not seen by Tidemark yet, or is not as it is asked about; it is tried again",
      });
      expect((await ask("/prioritize", { Pod: forge(real), NodeNames: ["node-1"] })).json).toEqual([
        { Host: "node-1", Score: 0 },
      ]);
      expect(await holds()).toBe(before);
    });

    it("of a pod that has its node holds nothing, however often it is asked", async () => {
      const bound = await client.create("test/bound", PODS, {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { namespace, name: "bound" },
        spec: { ...claiming("unbound"), containers: [{ name: "main", image: "none" }], nodeName: "node-2" },
      });
      const before = await holds();
      for (let turn = 0; turn < 3; turn += 1)
        expect((await asked(bound)).json).toMatchObject({
          NodeNames: [],
          Error: expect.stringContaining("tried again"),
        });
      expect(await holds()).toBe(before);
    });

    it("never kept the real pod out", async () => {
      expect((await asked(real)).json).toMatchObject({ NodeNames: ["node-1"], Error: "" });
    });

    afterAll(async () => {
      for (const name of ["victim", "unbound", "bound"]) await client.delete("test/delete", PODS, { namespace, name });
    });
  });

  it("places a pod that it sees a moment after it is asked", async () => {
    // Asked about before the API server has answered who has made it: the UID is known by then, the watch has not told it yet.
    const Pod = await addClaimAndPod("just-made", "1Gi");
    const { json } = await ask("/filter", { Pod, NodeNames: ["node-1"] });
    expect(JSON.stringify(json)).not.toContain("is not as it is asked about");
    await client.delete("test/delete", PODS, { namespace, name: "just-made" });
  });

  it("answers a scheduler and its probes while 5,000 connections of a stranger are silent", async () => {
    const Pod = await addClaimAndPod("besieged", "1Gi");
    const question = async () => (await ask("/filter", { Pod, NodeNames: ["node-1"] })).json;
    const strangers: Socket[] = [];
    const connectTo = (to: number): Promise<void> =>
      new Promise((resolve) => {
        const socket = connect({ port: to, host: "127.0.0.1", localAddress: "127.0.0.2" });
        socket.on("error", () => resolve());
        socket.once("connect", () => {
          // Half of them say one thing first, as one that is idle by right has.
          if (strangers.length % 2 === 0) socket.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
          strangers.push(socket);
          resolve();
        });
      });
    for (const to of [port, httpPort])
      for (let opened = 0; opened < 5000; opened += 250) {
        const silent = Promise.all(Array.from({ length: 250 }, () => connectTo(to)));
        expect(await question()).toMatchObject({ NodeNames: ["node-1"], Error: "" });
        expect((await get("/healthz")).status).toBe(200);
        await silent;
      }
    // On connections of their own: no address but the strangers' has more than a few.
    for (const path of ["/healthz", "/readyz", "/metrics"]) {
      const { status } = await new Promise<{ status: number }>((resolve, reject) => {
        request({ port: httpPort, host: "127.0.0.1", path, agent: false }, (response) =>
          resolve({ status: response.resume().statusCode ?? 0 }),
        )
          .on("error", reject)
          .end();
      });
      expect(status).toBe(200);
    }
    const { status } = await send(Buffer.from(JSON.stringify({ Pod, NodeNames: ["node-1"] })), true);
    expect(status).toBe(200);
    for (const socket of strangers) socket.destroy();
    await client.delete("test/delete", PODS, { namespace, name: "besieged" });
  });

  it("tells in metrics what it was asked, why nodes were refused and which nodes cannot be judged", async () => {
    const { text } = await get("/metrics");
    expect(text).toContain('tidemark_extender_request_duration_seconds_count{verb="filter",status="200"}');
    expect(text).toMatch(/tidemark_extender_refused_nodes_total\{reason="NoSpace"\} [1-9]/);
    expect(text).toContain('tidemark_extender_nodes{state="Reported"} 2');
    expect(text).toContain('tidemark_extender_nodes{state="NotReported"} 1');
    expect(text).toMatch(/tidemark_extender_ledger_entries\{kind="hold"\} \d/);
    expect(text).toMatch(/tidemark_extender_pods_not_there_total [1-9]/);
  });

  it("is explained by `tidemark explain --pod`, for each node, by the same code", async () => {
    await addClaimAndPod("explained");
    const explain = async (...args: string[]): Promise<string> => {
      const asked = ["explain", "--pod", `${namespace}/explained`, "--server", controlPlane.url];
      const { stdout } = await promisify(execFile)(process.execPath, [BUNDLE_PATH, ...asked, ...args]);
      return stdout;
    };
    const text = await explain();
    expect(text).toMatch(
      /^default\/explained: 1 of 3 nodes take its volumes\n\n {2}node-1 {2}score \d+ \(free 2\.0, growth \d\.\d, io not known\)\n/,
    );
    expect(text).toContain("  node-2  device class ssd: 10Gi needed, at most 4Gi free here\n");
    const { nodes } = JSON.parse(await explain("--output", "json")) as { nodes: object[] };
    expect(nodes).toHaveLength(3);
    expect(nodes).toContainEqual(
      expect.objectContaining({ nodeName: "node-2", fits: false, reason: "NoSpace", score: 0 }),
    );
  });

  const bad: readonly (readonly [string, string, string])[] = [
    ["truncated JSON", '{"Pod":{"metadata":{"name":"a"', "is not JSON"],
    ["no JSON", "kind: Pod", "is not JSON"],
    ["nothing", "", "is not JSON"],
    ["foreign JSON", '{"kind":"AdmissionReview"}', "not ExtenderArgs of kube-scheduler: Pod"],
    ["a list", "[]", "not ExtenderArgs of kube-scheduler: the body"],
    ["a pod without nodes", '{"Pod":{"metadata":{"name":"a"}}}', "set nodeCacheCapable: true"],
    [
      "whole nodes",
      '{"Pod":{"metadata":{"name":"a"}},"Nodes":{"items":[]},"NodeNames":null}',
      "set nodeCacheCapable: true",
    ],
    ["nodes that are no names", '{"Pod":{"metadata":{"name":"a"}},"NodeNames":[1]}', "NodeNames.0"],
    ["null", "null", "not ExtenderArgs of kube-scheduler: the body"],
  ];
  it.each(bad)("answers %s with 400 and a sentence", async (_name, body, sentence) => {
    for (const verb of ["/filter", "/prioritize"]) {
      const { status, text } = await ask(verb, body);
      expect(status).toBe(400);
      expect(text).toContain(sentence);
    }
  });

  it("refuses a body over 8 MiB with 413, whether its length is told or not", async () => {
    const large = Buffer.alloc(9 * 1024 ** 2, " ");
    for (const told of [true, false]) {
      const { status, text } = await send(large, told);
      expect(status).toBe(413);
      expect(text).toContain("limited to 8Mi");
    }
  });

  const POD = '{"metadata":{"name":"a"},"spec":{"volumes":';
  const hostile: readonly (readonly [name: string, head: string, part: string, tail: string])[] = [
    ["names that are lists", `{"Pod":${POD}[]}},"NodeNames":[`, "[],", "[]]}"],
    ["a pod of numbers", `{"NodeNames":["x"],"Pod":${POD}[`, "0,", "0]}}}"],
    ["lists in lists", `{"Pod":${POD}[]}},"NodeNames":`, "[", ""],
    ["nothing that is read", `{"Pod":${POD}[]}},"x":[`, "[],", "[]]}"],
    ["names that nobody has", `{"Pod":${POD}[]}},"NodeNames":[`, '"",', '""]}'],
  ];
  it("answers 7 MiB of small values with a sentence, several at once, and keeps its memory", async () => {
    for (const [, head, part, tail] of hostile) {
      const body = Buffer.concat([Buffer.from(head), Buffer.alloc(7 * 1024 ** 2, part), Buffer.from(tail)]);
      const answers = await Promise.all(Array.from({ length: 12 }, () => send(body, true)));
      for (const { status, text } of answers) {
        expect(text).toMatch(/is not JSON|not ExtenderArgs of kube-scheduler|too much is being sent/);
        expect([400, 503]).toContain(status);
      }
      expect(answers.map(({ status }) => status)).toContain(400);
    }
    expect(extender.running()).toBe(true);
  });

  it("goes on when a scheduler hangs up in the middle of its question", async () => {
    await new Promise<void>((resolve) => {
      const headers = { "content-length": 1000 };
      const sent = request({ port, host: "127.0.0.1", path: "/filter", method: "POST", headers });
      sent.on("error", () => resolve());
      sent.write('{"Pod":', () => sent.destroy(new Error("hung up")));
    });
    expect((await ask("/filter", "null")).status).toBe(400);
  });

  it("answers other paths with 404 and other methods with 405, and has gone on all the time", async () => {
    for (const path of ["/predicate", "/metrics", "/healthz", "/readyz"])
      expect((await get(path, port)).status).toBe(404);
    expect((await get("/filter", port)).status).toBe(405);
    expect((await get("/healthz")).text).toBe("ok\n");
    expect(extender.running()).toBe(true);
    expect(extender.log()).not.toContain('"level":50');
  });

  /** With a length, or in chunks. */
  function send(body: Buffer, told: boolean): Promise<{ status: number; text: string }> {
    return new Promise((resolve, reject) => {
      const headers = told ? { "content-length": body.length } : { "transfer-encoding": "chunked" };
      const sent = request({ port, host: "127.0.0.1", path: "/filter", method: "POST", headers }, (response) => {
        let text = "";
        response.on("data", (chunk: Buffer) => {
          text += chunk.toString();
        });
        response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
      });
      sent.on("error", reject);
      sent.end(body);
    });
  }
});
