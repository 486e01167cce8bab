// Tidemark on a real Kubernetes, installed from its manifests and used as a user uses it: everything runs as pods, with no rights
// but those of its roles.
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { FILESYSTEM_LAYOUTS } from "../../src/contracts/kinds/filesystem-layout.ts";
import type { KubeClient } from "../../src/platform/kube/client/client.ts";
import { createKubeClient } from "../../src/platform/kube/client/http-client.ts";
import { kubeconfigConnection } from "../../src/platform/kube/client/kube-config.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { EXTEND_AT_80 } from "../builders/policy.ts";
import { waitFor } from "../harness/wait-for.ts";
import { applyObject } from "./apply-object.ts";
import { breathingPolicy, shrinkBelow } from "./breathing-policy.ts";
import { ephemeralPod, localClass } from "./claiming-pod.ts";
import { type ClusterUnderTest, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn } from "./describe-on.ts";
import { everyPodReady, install, loadImages, logsOf, podNames, SYSTEM_NAMESPACE } from "./installed-tidemark.ts";
import { PODS } from "./pod.ts";
import { statefulWriter, WRITER_CLAIM, WRITER_POD, type Writer, writerIn } from "./stateful-writer.ts";
import { whatIsThere } from "./what-is-there.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 420_000;
const CLASS = "e2e-loop";

/** It fails unless its volume is a filesystem of its own that it can write. */
const SHORT_LIFE = "grep ' /scratch btrfs rw' /proc/mounts && echo here > /scratch/file && sync";
const LIMITS = { min: "1Gi", max: "8Gi", minAvailable: "128Mi" };
const files = (from: number, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `f${from + index}`);

let tested: ClusterUnderTest;
let writer: Writer;

async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  const otherwise = (): Promise<string> => whatIsThere(tested);
  return waitFor(what, look, { limitMs: LIMIT_MS / 2, intervalMs: 500, otherwise });
}

async function capacityIs(what: string, holds: (mib: number) => boolean): Promise<number> {
  return until(`the filesystem to ${what}`, async () => {
    const mib = await writer.capacityMiB();
    return holds(mib) ? mib : undefined;
  });
}

describeOn("any", "Tidemark installed in a cluster", ["bundle"], () => {
  beforeAll(async () => {
    tested = await startClusterUnderTest();
    writer = writerIn(tested);
    await loadImages(tested);
  }, BUILD_LIMIT_MS);

  afterAll(async () => {
    await tested?.close();
  }, LIMIT_MS);

  it(
    "is there after the two commands of an install, with every pod Ready",
    async () => {
      await install(tested);
      expect((await podNames(tested)).length).toBeGreaterThanOrEqual(6);
    },
    LIMIT_MS,
  );

  it(
    "gives a StatefulSet its filesystem, extends it as it fills, and shrinks it as it empties",
    async () => {
      await applyObject(tested, localClass(CLASS, { initialSize: "1Gi" }));
      await applyObject(tested, breathingPolicy(LIMITS, [EXTEND_AT_80, shrinkBelow(40)]));
      await applyObject(tested, statefulWriter(tested.image, CLASS, "8Gi"));
      await writer.running();
      expect(await writer.capacityMiB()).toBe(1024);
      await writer.write(files(0, 60));
      const grownMiB = await capacityIs("grow", (mib) => mib > 1200);
      await writer.write(files(60, 30));
      await writer.remove(files(0, 75));
      await capacityIs("shrink", (mib) => mib <= grownMiB - 256);
      expect(await writer.damaged()).toBe("");
      await until("the Filesystem to tell by which rule", async () =>
        /extend-at-80|shrink-below-40/.test(await tested.kubectl("describe", "filesystem", WRITER_CLAIM))
          ? true
          : undefined,
      );
    },
    LIMIT_MS,
  );

  it(
    "keeps the data when the pod is replaced, and grows the volume while no agent was there for a moment",
    async () => {
      await tested.kubectl("delete", "pod", WRITER_POD);
      await writer.running();
      expect(await writer.damaged()).toBe("");
      const agents = await podNames(tested, "app.kubernetes.io/component=agent");
      await tested.kubectl("-n", SYSTEM_NAMESPACE, "delete", "pod", "--grace-period=0", "--force", ...agents);
      const beforeMiB = await writer.capacityMiB();
      await writer.write(files(200, 40));
      await capacityIs("grow again", (mib) => mib > beforeMiB);
      await everyPodReady(tested);
      expect(await writer.damaged()).toBe("");
    },
    LIMIT_MS,
  );

  it(
    "raises the capacity with the claim's request",
    async () => {
      await tested.kubectl("patch", "pvc", WRITER_CLAIM, "-p", '{"spec":{"resources":{"requests":{"storage":"9Gi"}}}}');
      await capacityIs("be as large as the claim", (mib) => mib >= 9 * 1024);
      expect(await writer.damaged()).toBe("");
    },
    LIMIT_MS,
  );

  it(
    "gives a pod a generic ephemeral volume for one writer, which goes with the pod",
    async () => {
      await applyObject(tested, ephemeralPod("short-lived", tested.image, SHORT_LIFE, CLASS, "2Gi"));
      await until("the pod to have ended", async () =>
        ["Succeeded", "Failed"].includes(await phaseOf("short-lived")) ? true : undefined,
      );
      expect([await phaseOf("short-lived"), await tested.kubectl("logs", "short-lived")]).toEqual([
        "Succeeded",
        expect.stringContaining("/scratch btrfs"),
      ]);
      await tested.kubectl("delete", "pod", "short-lived");
      await until("its claim and its layout to be gone", async () =>
        (await tested.client.list(FILESYSTEM_LAYOUTS)).items.length === 1 ? true : undefined,
      );
    },
    LIMIT_MS,
  );

  it("does nothing that its roles do not allow", async () => {
    const logs = await logsOf(tested);
    expect(
      logs.split("\n").filter((line) => /forbidden|cannot (get|list|watch|create|update|patch|delete)/i.test(line)),
    ).toEqual([]);
  });

  it("refuses an agent's word on a layout of another node, and takes that of its own node's agent", async () => {
    const [layout] = (await tested.client.list(FILESYSTEM_LAYOUTS)).items;
    if (layout === undefined) throw new Error("there is no layout");
    const own = await agentOn((node) => node === layout.spec.nodeName);
    const stranger = await agentOn((node) => node !== layout.spec.nodeName);
    const word = {
      apiVersion: layout.apiVersion,
      kind: layout.kind,
      metadata: { name: layout.metadata.name },
      status: { nodeName: layout.spec.nodeName },
    };
    const say = (agent: KubeClient) =>
      agent.apply("e2e/status", FILESYSTEM_LAYOUTS, word, {
        fieldManager: "e2e",
        force: true,
        subresource: "status",
      });
    await expect(say(own)).resolves.toMatchObject({ status: word.status });
    await expect(say(stranger)).rejects.toThrow(/only the agent of its own node writes it/);
  });

  it(
    "leaves filesystems mounted and whole when it is deleted, and manages them again when it is back",
    async () => {
      for (const workload of ["daemonset/agent", "deployment/operator", "deployment/policy-engine"])
        await tested.kubectl("-n", SYSTEM_NAMESPACE, "delete", workload, "--wait");
      await writer.write(files(300, 2));
      expect(await writer.damaged()).toBe("");
      await install(tested);
      await tested.kubectl("delete", "pod", WRITER_POD);
      await writer.running();
      expect(await writer.damaged()).toBe("");
    },
    LIMIT_MS,
  );

  it(
    "leaves nothing of a claim that is deleted",
    async () => {
      await tested.kubectl("delete", "statefulset", "writer", "--wait");
      await tested.kubectl("delete", "pvc", WRITER_CLAIM, "--timeout=120s");
      await until("volume and layout to be gone", async () =>
        (await tested.kubectl("get", "pv,filesystemlayouts,filesystems", "-o", "name")) === "" ? true : undefined,
      );
    },
    LIMIT_MS,
  );
});

const phaseOf = (pod: string): Promise<string> => tested.kubectl("get", "pod", pod, "-o", "jsonpath={.status.phase}");

/** A client with the rights of the agent on the first such node: a token that is bound to its pod, as the pod itself has. */
async function agentOn(isNode: (node: string | undefined) => boolean): Promise<KubeClient> {
  const selector = { namespace: SYSTEM_NAMESPACE, labelSelector: "app.kubernetes.io/component=agent" };
  const pod = (await tested.client.list(PODS, selector)).items.find(({ spec }) => isNode(spec.nodeName));
  const bound = ["--bound-object-kind=Pod", `--bound-object-name=${pod?.metadata.name ?? ""}`];
  const token = (await tested.kubectl("-n", SYSTEM_NAMESPACE, "create", "token", "agent", ...bound)).trim();
  const { server, credentials } = await kubeconfigConnection(tested.kubeconfig);
  const ca = (await credentials?.())?.tls?.ca;
  const identity = { headers: { authorization: `Bearer ${token}` }, tls: { ca } };
  return createKubeClient({ connection: { server, credentials: async () => identity }, effects: directEffects });
}
