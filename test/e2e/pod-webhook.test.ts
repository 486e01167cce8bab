// The pod webhook as an API server of a real cluster calls it: which pods it is asked about, what becomes of them, and that none waits for
// it when it is down. Where the pods are put is not looked at here.
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import {
  EVENTS,
  MUTATING_WEBHOOK_CONFIGURATIONS,
  PODS,
  type Pod,
  type PodVolume,
} from "../../src/contracts/kubernetes/resources.ts";
import { POD_WEBHOOK } from "../../src/contracts/names.ts";
import { waitFor } from "../harness/wait-for.ts";
import { applyObject } from "./apply-object.ts";
import { claimOf, localClass } from "./claiming-pod.ts";
import { type ClusterUnderTest, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn } from "./describe-on.ts";
import { install, loadImages, POD_WEBHOOK_OVERLAY, podNames, SYSTEM_NAMESPACE } from "./installed-tidemark.ts";
import { whatIsThere } from "./what-is-there.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 300_000;
const CLASS = "e2e-placed";
const OPERATOR = "app.kubernetes.io/component=operator";
const MARK = { "tidemark.dev/capacity": "1" };
/** No node has it: such a pod waits for as long as anybody looks. */
const NOWHERE = { nodeSelector: { "tidemark.dev/e2e": "nowhere" } };

let tested: ClusterUnderTest;

const until = <T>(what: string, look: () => Promise<T | undefined>): Promise<T> =>
  waitFor(what, look, { limitMs: LIMIT_MS / 2, intervalMs: 200, otherwise: () => whatIsThere(tested) });

/** As the API server has stored it. */
function make(name: string, volumes: object[], spec: object = {}, namespace = tested.namespace): Promise<Pod> {
  const container = { name: "shell", image: tested.image, imagePullPolicy: "IfNotPresent", command: ["sleep", "1d"] };
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace, name },
    spec: { terminationGracePeriodSeconds: 0, containers: [container], volumes: volumes as PodVolume[], ...spec },
  };
  return tested.client.create("e2e/pod", PODS, pod);
}

const claimed = (claimName: string): object => ({ name: "data", persistentVolumeClaim: { claimName } });
const scratch = (): object => {
  const spec = { storageClassName: CLASS, accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } };
  return { name: "scratch", ephemeral: { volumeClaimTemplate: { spec } } };
};

/** All that the API server has ever asked the replicas that run. */
/** A page of metrics may be a second old. */
const PAGE_AGE_MS = 1100;

async function requests(): Promise<number> {
  await sleep(PAGE_AGE_MS);
  const pods = await podNames(tested, OPERATOR);
  expect(pods.length).toBeGreaterThan(0);
  const texts = pods.map((pod) =>
    tested.kubectl("get", "--raw", `/api/v1/namespaces/${SYSTEM_NAMESPACE}/pods/${pod}:9465/proxy/metrics`),
  );
  const counts = (await Promise.all(texts)).flatMap((text) => [
    ...text.matchAll(/^tidemark_operator_pod_webhook_duration_seconds_count\{[^}]*\} (\d+)$/gm),
  ]);
  return counts.reduce((sum, [, count]) => sum + Number(count), 0);
}

const placed = ({ metadata, spec }: Pod) => ({
  schedulerName: spec.schedulerName,
  resources: spec.containers[0]?.resources,
  annotations: metadata.annotations,
});

/** The API server takes up a webhook's configuration on its own time. */
async function untilAsked(name: string): Promise<void> {
  let attempt = 0;
  await until("the API server to ask the webhook", async () => {
    attempt += 1;
    const { spec } = await make(`${name}-${attempt}`, [scratch()], NOWHERE);
    return spec.schedulerName === "tidemark-scheduler" || undefined;
  });
}

describeOn("ours", "the pod webhook", ["bundle"], () => {
  beforeAll(async () => {
    tested = await startClusterUnderTest();
    await loadImages(tested);
    await install(tested, POD_WEBHOOK_OVERLAY);
    await applyObject(tested, localClass(CLASS));
    await untilAsked("first");
  }, BUILD_LIMIT_MS);
  afterAll(() => tested?.close(), LIMIT_MS);

  it(
    "marks pods with claims and with ephemeral volumes of ours, and replaces no scheduler but the default one",
    async () => {
      await applyObject(tested, claimOf("data", CLASS, "2Gi"));
      const annotations = { "capacity.tidemark.dev/e2e-placed": `${2 * 1024 ** 3}` };
      expect(placed(await make("claimed", [claimed("data")], NOWHERE))).toEqual({
        schedulerName: "tidemark-scheduler",
        resources: { requests: MARK, limits: MARK },
        annotations,
      });
      expect(placed(await make("scratching", [scratch()], NOWHERE))).toMatchObject({
        schedulerName: "tidemark-scheduler",
        annotations: { "capacity.tidemark.dev/e2e-placed": `${1024 ** 3}` },
      });
      const foreign = await make("foreign", [claimed("data")], { ...NOWHERE, schedulerName: "volcano" });
      expect(placed(foreign)).toEqual({ schedulerName: "volcano", resources: {}, annotations });
    },
    LIMIT_MS,
  );

  it(
    "is asked about no other pod at all",
    async () => {
      const before = await requests();
      const plain = [
        await make("plain", [], NOWHERE),
        await make("empty", [{ name: "a", emptyDir: {} }], NOWHERE),
        await make("has-node", [claimed("data")], { nodeName: "nowhere" }),
        await make("system", [scratch()], NOWHERE, "kube-system"),
      ];
      for (const { spec } of plain) expect(spec.schedulerName).toBe("default-scheduler");
      expect(await requests()).toBe(before);
      await make("asked", [claimed("no-such-claim")], NOWHERE);
      expect(await requests()).toBe(before + 1);
      await tested.client.delete("e2e/pod", PODS, { namespace: "kube-system", name: "system" });
    },
    LIMIT_MS,
  );

  it(
    "is left as it is by a sync from Git, which owns all of its configuration but the CA",
    async () => {
      const name = POD_WEBHOOK.configuration;
      const before = await tested.client.get(MUTATING_WEBHOOK_CONFIGURATIONS, { name });
      await tested.kubectl("-n", SYSTEM_NAMESPACE, "apply", "--server-side", "--kustomize", POD_WEBHOOK_OVERLAY);
      expect(await tested.client.get(MUTATING_WEBHOOK_CONFIGURATIONS, { name })).toEqual(before);
      const args = ["get", "mutatingwebhookconfiguration", name, "--show-managed-fields", "--output", "json"];
      const { metadata } = JSON.parse(await tested.kubectl(...args)) as {
        metadata: { managedFields: { manager: string; fieldsV1: object }[] };
      };
      const own = metadata.managedFields.find(({ manager }) => manager === "tidemark-ca-publisher");
      const webhook = `k:${JSON.stringify({ name: POD_WEBHOOK.webhook })}`;
      expect(own?.fieldsV1).toEqual({
        "f:webhooks": { [webhook]: { ".": {}, "f:clientConfig": { "f:caBundle": {} }, "f:name": {} } },
      });
    },
    LIMIT_MS,
  );

  it(
    "keeps no pod from being made when it is down, and writes an Event on the one that it missed once it is back",
    async () => {
      const scale = (replicas: number) =>
        tested.kubectl("-n", SYSTEM_NAMESPACE, "scale", "deployment/operator", `--replicas=${replicas}`);
      await scale(0);
      await until("no operator", async () => ((await podNames(tested, OPERATOR)).length === 0 ? true : undefined));
      const missed = await make("missed", [claimed("data")], NOWHERE);
      const other = await make("other", [], {});
      for (const { spec } of [missed, other]) expect(spec.schedulerName).toBe("default-scheduler");
      await tested.kubectl("wait", "--for=condition=Ready", "pod/other", "--timeout=120s");
      await scale(2);
      const { namespace } = tested;
      const fieldSelector = `involvedObject.uid=${missed.metadata.uid},reason=WebhookBypassed`;
      const [event] = await until("an Event on the pod", async () => {
        const { items } = await tested.client.list(EVENTS, { namespace, fieldSelector });
        return items.length > 0 ? items : undefined;
      });
      expect(event?.message).toContain("default-scheduler did not check the capacity for this pod");
      const ofOther = `involvedObject.uid=${other.metadata.uid},reason=WebhookBypassed`;
      expect((await tested.client.list(EVENTS, { namespace, fieldSelector })).items).toHaveLength(1);
      expect((await tested.client.list(EVENTS, { namespace, fieldSelector: ofOther })).items).toEqual([]);
      await untilAsked("again");
      expect((await tested.client.get(PODS, { namespace, name: "missed" }))?.metadata.uid).toBe(missed.metadata.uid);
    },
    LIMIT_MS,
  );
});
