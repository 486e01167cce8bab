// What schedulers, the API server and agents send: extender arguments, AdmissionReviews, samples, watch events.
import assert from "node:assert/strict";
import { elementsOf, membersOf } from "../../../src/extender/report/json-pieces.ts";
import { readArgs } from "../../../src/extender/report/read-args.ts";
import { AgentMessage } from "../../../src/gen/tidemark/samples/v1/samples.ts";
import { readWatchEvents } from "../../../src/kube/client/watch-stream.ts";
import { readReview } from "../../../src/operator/webhook/admission-review.ts";
import { createSampleIntake } from "../../../src/policy-engine/samples/sample-intake.ts";
import { buildPod, buildReview, ephemeral, ofClaim } from "../../builders/pod-review.ts";
import { NODE, VOLUME_UID } from "../../builders/volume.ts";
import { createRecordingLog } from "../../fakes/recording-log.ts";
import { messageMutator } from "../messages.ts";
import { jsonMutator } from "../mutate.ts";
import { decoded, type FuzzTarget, pure } from "../target.ts";

const HANDLE = `fs-${VOLUME_UID}`;

const review: FuzzTarget = {
  name: "AdmissionReviews",
  parsers: ["src/operator/webhook/admission-review.ts"],
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

const node = (name: string) => ({ metadata: { name }, status: { capacity: { cpu: "1" } } });

const extenderArguments: FuzzTarget = {
  name: "extender arguments",
  parsers: ["src/extender/report/read-args.ts", "src/extender/report/json-pieces.ts"],
  seeds: () =>
    [
      { Pod: buildPod([ofClaim("data"), ephemeral("scratch", undefined, "1Gi")]), NodeNames: ["node-1", "node-2"] },
      { Pod: buildPod([]), Nodes: { items: [node("node-1"), node("node-2")] }, NodeNames: null },
    ].map((one) => JSON.stringify(one)),
  mutate: jsonMutator([
    "NodeNames",
    "Nodes",
    "items",
    "Pod",
    "metadata",
    "name",
    "node-1",
    "volumes",
    "claimName",
    "\\u0050od",
  ]),
  refusals: ["WireError"],
  start: pure((input) => {
    const { pod, nodeNames, nodes } = readArgs(input);
    const said = JSON.parse(input.toString("utf8")) as {
      readonly Pod: { readonly metadata: { readonly name: string } };
      readonly NodeNames?: readonly string[];
      readonly Nodes?: { readonly items?: readonly { readonly metadata: { readonly name: string } }[] };
    };
    assert.equal(pod.metadata.name, said.Pod.metadata.name);
    assert.deepEqual(nodeNames, said.NodeNames ?? (said.Nodes?.items ?? []).map(({ metadata }) => metadata.name));
    for (const item of said.Nodes?.items ?? []) {
      if (said.NodeNames || said.Nodes?.items?.filter((one) => one.metadata.name === item.metadata.name).length !== 1)
        continue;
      assert.deepEqual(JSON.parse(nodes?.get(item.metadata.name)?.toString("utf8") ?? "null"), item);
    }
  }),
  cost: 2,
};

const pieces: FuzzTarget = {
  name: "pieces of large JSON",
  parsers: ["src/extender/report/json-pieces.ts"],
  seeds: () => [
    '{"Pod":{"a":[1,"}",{}]},"NodeNames":["a","b\\"c"]}',
    ' [1, {"a": null} ,"x"] ',
    "[]",
    '{"\\u0050":1,"P":2}',
  ],
  mutate: jsonMutator(["a", "}", "]", "\\", '\\"', "\u2028"]),
  refusals: ["PieceError", "SyntaxError"],
  start: pure((input) => {
    const isList = input.toString("latin1").trimStart().startsWith("[");
    const parts = isList ? elementsOf(input, 1000) : [...membersOf(input).values()];
    const whole = JSON.parse(input.toString("utf8")) as Record<string, unknown> | unknown[];
    const values = isList
      ? (whole as unknown[])
      : [...membersOf(input).keys()].map((key) => (whole as Record<string, unknown>)[key]);
    // Longer names are nobody's.
    if (!isList && Object.keys(whole).some((name) => Buffer.byteLength(JSON.stringify(name)) > 1000)) return;
    assert.equal(parts.length, isList ? values.length : Object.keys(whole).length);
    for (const [index, part] of parts.entries()) assert.deepEqual(JSON.parse(part.toString("utf8")), values[index]);
  }),
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
  parsers: ["src/policy-engine/samples/sample-intake.ts"],
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
  parsers: ["src/kube/client/watch-stream.ts", "src/kube/client/status-error.ts"],
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

export const REQUEST_TARGETS: readonly FuzzTarget[] = [...[review, extenderArguments, pieces, samples, watchEvents]];
