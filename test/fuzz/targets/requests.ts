// What schedulers, the API server, agents and Prometheus send: extender arguments, AdmissionReviews, samples, answers and watch events.
import assert from "node:assert/strict";
import { AgentMessage } from "../../../src/contracts/gen/tidemark/samples/v1/samples.ts";
import { readArgs } from "../../../src/extender/report/scheduler-wire.ts";
import { readReview } from "../../../src/operator/webhook/admission-review.ts";
import { parseAnswer, readWatchEvents } from "../../../src/platform/kube/client/wire.ts";
import { checkPolicy } from "../../../src/policy-engine/admission/check-policy.ts";
import { readPolicyReview } from "../../../src/policy-engine/admission/policy-review.ts";
import { SeriesScanner } from "../../../src/policy-engine/gather/prometheus/series-stream.ts";
import type { AnyPolicy } from "../../../src/policy-engine/policies/compile-policy.ts";
import { createSampleIntake } from "../../../src/policy-engine/samples/sample-server.ts";
import { buildPod, buildReview, ephemeral, ofClaim } from "../../builders/pod-review.ts";
import { aClusterPolicy, aVolumePolicy, EXTEND_AT_80 } from "../../builders/policy.ts";
import { buildPolicyReview } from "../../builders/policy-review.ts";
import { NODE, VOLUME_UID } from "../../builders/volume.ts";
import { createRecordingLog } from "../../fakes/recording-log.ts";
import { messageMutator } from "../messages.ts";
import { jsonMutator } from "../mutate.ts";
import { decoded, type FuzzTarget, pure } from "../target.ts";

const HANDLE = `fs-${VOLUME_UID}`;

const review: FuzzTarget = {
  name: "AdmissionReviews",
  parsers: ["src/operator/webhook/admission-review.ts", "src/platform/kube/admission/admission-review.ts"],
  seeds: () =>
    [
      buildReview(buildPod([ofClaim("data"), ephemeral("scratch", "tidemark-loop", "10Gi")])),
      buildReview(buildPod([], { annotations: { a: "b" } }), { operation: "UPDATE" }),
      buildReview(null, { subResource: "status" }),
    ].map((one) => JSON.stringify(one)),
  mutate: jsonMutator([
    "CREATE",
    "pods",
    "v1",
    "spec",
    "volumes",
    "containers",
    "annotations",
    "uid",
    "request",
    "object",
    "ephemeral",
  ]),
  refusals: ["ForeignReview"],
  start: pure((input) => {
    const text = input.toString("utf8");
    const { uid, namespace, pod } = readReview(text);
    const { request } = JSON.parse(text) as {
      request: { uid: string; operation: string; resource: { resource: string } };
    };
    assert.equal(uid, request.uid);
    assert.ok(uid !== "" && typeof namespace === "string");
    if (pod === undefined) return;
    assert.deepEqual([request.operation, request.resource.resource], ["CREATE", "pods"]);
    for (const value of Object.values(pod.metadata?.annotations ?? {})) assert.equal(typeof value, "string");
    for (const { name, persistentVolumeClaim } of pod.spec.volumes ?? [])
      assert.ok(typeof name === "string" && typeof (persistentVolumeClaim?.claimName ?? "") === "string");
  }),
  cost: 2,
};

const policyReview: FuzzTarget = {
  name: "AdmissionReviews of policies",
  parsers: ["src/policy-engine/admission/policy-review.ts", "src/policy-engine/admission/refusal-text.ts"],
  seeds: () =>
    [
      buildPolicyReview(aVolumePolicy()),
      buildPolicyReview(aClusterPolicy()),
      buildPolicyReview(aVolumePolicy({ rules: [{ ...EXTEND_AT_80, when: "volume.usedratio\n>= 80" }] })),
      buildPolicyReview(aVolumePolicy(), { operation: "UPDATE", oldObject: aVolumePolicy({ rules: [] }) }),
      buildPolicyReview(aVolumePolicy(), { operation: "DELETE", object: null, oldObject: aVolumePolicy() }),
    ].map((one) => JSON.stringify(one)),
  mutate: jsonMutator(["CREATE", "UPDATE", "volumepolicies", "spec", "rules", "when", "metadata", "oldObject", "uid"]),
  refusals: ["ForeignReview"],
  start: pure((input) => {
    const text = input.toString("utf8");
    const { uid, policy } = readPolicyReview(text);
    const { request } = JSON.parse(text) as { request: { uid: string; operation: string } };
    assert.equal(uid, request.uid);
    if (typeof policy === "string") return;
    assert.ok(request.operation === "CREATE" || request.operation === "UPDATE");
    const { refusal, warnings } = checkPolicy(JSON.parse(policy.text) as AnyPolicy);
    assert.ok(refusal === undefined || (refusal.includes("does not compile:\n") && warnings.length === 0));
  }),
  cost: 4,
};

const extenderArguments: FuzzTarget = {
  name: "extender arguments",
  parsers: ["src/extender/report/scheduler-wire.ts"],
  seeds: () =>
    [
      { Pod: buildPod([ofClaim("data"), ephemeral("scratch", undefined, "1Gi")]), NodeNames: ["node-1", "node-2"] },
      { Pod: buildPod([]), Nodes: null, NodeNames: [] },
    ].map((one) => JSON.stringify(one)),
  mutate: jsonMutator(["NodeNames", "Nodes", "Pod", "metadata", "name", "node-1", "volumes", "claimName", "\\u0050od"]),
  refusals: ["WireError"],
  start: pure((input) => {
    const { pod, nodeNames } = readArgs(input);
    const asked = JSON.parse(input.toString("utf8")) as {
      readonly Pod: { readonly metadata: { readonly name: string } };
      readonly NodeNames: readonly string[];
    };
    assert.equal(pod.metadata.name, asked.Pod.metadata.name);
    assert.deepEqual(nodeNames, asked.NodeNames);
  }),
  cost: 2,
};

const SAMPLE = {
  volumeHandle: HANDLE,
  sampledAtMs: 1_772_366_400_000,
  sizeBytes: 2 ** 30,
  capacityBytes: 2 ** 30,
  availableBytes: 2 ** 29,
};

const samples: FuzzTarget = {
  name: "the stream of samples",
  parsers: ["src/policy-engine/samples/sample-server.ts"],
  seeds: () =>
    [
      AgentMessage.fromPartial({ message: { $case: "hello", value: { nodeName: NODE, highestEpoch: 4 } } }),
      AgentMessage.fromPartial({
        message: { $case: "batch", value: { samples: [SAMPLE, { ...SAMPLE, volumeHandle: "fs-other" }] } },
      }),
    ].map((message) => Buffer.from(AgentMessage.encode(message).finish())),
  mutate: messageMutator(AgentMessage, [HANDLE, NODE, "batch", "hello", "samples"]),
  refusals: ["Refused"],
  start: () => {
    const intake = createSampleIntake((handle) => (handle === HANDLE ? NODE : undefined), createRecordingLog().log);
    let atMs = 0;
    const take = (input: Buffer): void => {
      const { message } = decoded(AgentMessage.decode, input);
      if (message?.$case !== "batch") return;
      atMs += 10_000;
      const taken = intake.take(NODE, message.value.samples, atMs);
      assert.ok(taken.length <= 200, "more than an agent takes in a second");
      for (const { volumeHandle, sizeBytes, capacityBytes } of taken) {
        assert.equal(volumeHandle, HANDLE);
        assert.ok(Number.isSafeInteger(sizeBytes) && Number.isSafeInteger(capacityBytes));
      }
    };
    return { take };
  },
};

const EVENTS = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"].map((type) =>
  JSON.stringify({
    type,
    object: { kind: "Status", code: 410, message: "gone", metadata: { name: "a", resourceVersion: "7" } },
  }),
);

const watchEvents: FuzzTarget = {
  name: "watch events",
  parsers: ["src/platform/kube/client/wire.ts", "src/platform/kube/kube-error.ts"],
  // Those behind were once crashes.
  seeds: () => [
    ...EVENTS.map((event) => `${event}\n`),
    ...[
      '{"type":"BOOKMARK","object":{}}\n',
      '{"type":"ADDED","object":[]}\n',
      '{"type":"ERROR","object":{"message":5}}\n',
    ],
  ],
  mutate: (random, input, other) => Buffer.concat([mutateEvent(random, input, other), Buffer.from("\n")]),
  refusals: ["KubeError"],
  start: pure(async (input) => {
    const half = Math.floor(input.length / 2);
    const chunks = async function* () {
      yield input.subarray(0, half);
      yield input.subarray(half);
    };
    for await (const event of readWatchEvents(chunks(), "a watch", (object) => object))
      if (event.type !== "BOOKMARK") assert.equal(typeof event.object.metadata, "object");
      else assert.equal(typeof event.resourceVersion, "string");
  }),
};
const mutateEvent = jsonMutator([
  "ADDED",
  "BOOKMARK",
  "ERROR",
  "type",
  "object",
  "metadata",
  "code",
  "message",
  "retryAfterSeconds",
]);

/** Of any status: the first byte says which. */
const answers: FuzzTarget = {
  name: "answers of the API server",
  parsers: ["src/platform/kube/client/wire.ts", "src/platform/kube/kube-error.ts"],
  seeds: () => [
    '2{"kind":"Filesystem","metadata":{"name":"a"}}',
    '4{"kind":"Status","code":409,"reason":"AlreadyExists","message":"it is there","details":{"retryAfterSeconds":1}}',
    "5no healthy upstream",
  ],
  mutate: jsonMutator(["Status", "code", "reason", "message", "details", "retryAfterSeconds", "AlreadyExists"]),
  refusals: ["KubeError"],
  start: pure((input) => {
    const [first = "2", ...rest] = input.toString("utf8");
    const status = { "4": 409, "5": 503 }[first] ?? 200;
    const object: unknown = parseAnswer("a get", { status, headers: {}, text: rest.join("") });
    assert.equal(status, 200);
    assert.notEqual(object, undefined);
  }),
};

/** The first byte says where the answer is cut in two. */
const series: FuzzTarget = {
  name: "answers of Prometheus",
  parsers: ["src/policy-engine/gather/prometheus/series-stream.ts"],
  seeds: () => [
    '~{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"namespace":"a"},"values":[[1,"2"]]},{"metric":{}}]}}',
    '0{"status":"success","data":{"resultType":"scalar","result":[1.5,"1.5"]},"warnings":["a store is away"]}',
    ' {"status":"error","error":"too {[ many"}',
  ],
  mutate: jsonMutator(["status", "success", "data", "result", "metric", "values", "warnings"]),
  refusals: ["SyntaxError"],
  start: pure((input) => {
    const body = input.subarray(1);
    const cut = (input[0] ?? 0) % (body.length + 1);
    const whole = scanned([body]);
    assert.deepEqual(scanned([body.subarray(0, cut), body.subarray(cut)]), whole);
    if (whole === "no answer") throw new SyntaxError(whole);
    for (const one of whole.series) assert.equal(typeof one, "object");
  }),
};

function scanned(parts: readonly Uint8Array[]) {
  const scanner = new SeriesScanner();
  try {
    const found = parts.flatMap((part) => scanner.scan(part));
    return { series: found, envelope: JSON.parse(scanner.envelope()) as unknown };
  } catch (error) {
    if (error instanceof SyntaxError) return "no answer";
    throw error;
  }
}

export const REQUEST_TARGETS: readonly FuzzTarget[] = [
  review,
  policyReview,
  extenderArguments,
  samples,
  watchEvents,
  answers,
  series,
];
