// What sidecars, kubelets, schedulers, the API server and agents ask: CSI requests, extender arguments, AdmissionReviews, samples, watch events.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { kubeletPath } from "../../../src/agent/kubelet-path.ts";
import { isUUID, snapshotUIDOf, volumeUIDOf } from "../../../src/api/identity.ts";
import { accessOf } from "../../../src/csi/access.ts";
import { LOCAL, SPAN } from "../../../src/csi/driver.ts";
import { handleOf } from "../../../src/csi/volume-id.ts";
import { elementsOf, membersOf } from "../../../src/extender/json-pieces.ts";
import { readArgs } from "../../../src/extender/read-args.ts";
import {
  CreateSnapshotRequest,
  CreateVolumeRequest,
  GetCapacityRequest,
  NodePublishVolumeRequest,
} from "../../../src/gen/csi/v1/csi.ts";
import { AgentMessage } from "../../../src/gen/tidemark/samples/v1/samples.ts";
import { readWatchEvents } from "../../../src/kube/watch-stream.ts";
import { capacityQuestion } from "../../../src/operator/csi/capacity-question.ts";
import { snapshotOrderOf } from "../../../src/operator/csi/snapshot-order.ts";
import { orderOf } from "../../../src/operator/csi/volume-order.ts";
import { readReview } from "../../../src/operator/webhook/admission-review.ts";
import { createSampleIntake } from "../../../src/policy-engine/process/sample-intake.ts";
import {
  blockCapability,
  buildCreateVolumeRequest,
  mountCapability,
  PARAMETERS,
} from "../../builders/create-volume-request.ts";
import { buildPod, buildReview, ephemeral, ofClaim } from "../../builders/pod-review.ts";
import { NODE, VOLUME_UID } from "../../builders/volume.ts";
import { createRecordingLog } from "../../fakes/recording-log.ts";
import { jsonMutator, type Mutate, mutateBytes } from "../mutate.ts";
import { accepted, decoded, type FuzzTarget, pure } from "../target.ts";

const HANDLE = `fs-${VOLUME_UID}`;

/** What a message says is changed as often as its bytes are. */
function messageMutator<T>(
  message: { decode(bytes: Uint8Array): T; encode(value: T): { finish(): Uint8Array } },
  words: readonly string[],
): Mutate {
  const mutateText = jsonMutator(words);
  return (random, input, other) => {
    if (random.chance(0.5)) return mutateBytes(random, input, other);
    try {
      const said = (bytes: Buffer): Buffer => Buffer.from(JSON.stringify(message.decode(bytes)));
      const changed = JSON.parse(mutateText(random, said(input), said(other)).toString("utf8")) as T;
      return Buffer.from(message.encode(changed).finish());
    } catch {
      return mutateBytes(random, input, other);
    }
  };
}

const WORDS = [
  ...[
    "loop",
    "lvm",
    "span",
    "btrfs",
    "ext4",
    "xfs",
    "backend",
    "initialSize",
    "maxSize",
    "deviceClass",
    "10Gi",
    "0",
    "1Mi",
    "-1",
  ],
  ...[
    "memberStorageClassName",
    "maxMembers",
    "spareMembers",
    "strategy",
    "memberLabels",
    "../..",
    HANDLE,
    `snap-${VOLUME_UID}`,
    "\u0007",
  ],
];
const lvm = { ...PARAMETERS, backend: "lvm", deviceClass: "ssd", maxSize: "1Ti" };
const span = { ...PARAMETERS, backend: "span", memberStorageClassName: "fast", maxMembers: "4", initialSize: "1Gi" };

const createVolume: FuzzTarget = {
  name: "CSI CreateVolume",
  parsers: [
    "src/operator/csi/volume-order.ts",
    "src/operator/csi/volume-parameters.ts",
    "src/operator/csi/volume-size.ts",
  ],
  seeds: () =>
    [
      buildCreateVolumeRequest(),
      buildCreateVolumeRequest({ parameters: lvm, volumeCapabilities: [blockCapability()] }),
      buildCreateVolumeRequest({ parameters: span, capacityRange: { requiredBytes: 2 ** 31, limitBytes: 2 ** 33 } }),
      buildCreateVolumeRequest({
        parameters: { ...lvm, initialSize: "1Gi" },
        volumeCapabilities: [mountCapability("ext4")],
      }),
    ].map((request) => Buffer.from(CreateVolumeRequest.encode(request).finish())),
  mutate: messageMutator(CreateVolumeRequest, WORDS),
  refusals: ["Refused"],
  start: pure((input) => {
    const request = decoded(CreateVolumeRequest.decode, input);
    const isSpan = request.parameters["backend"] === "span";
    const order = accepted(orderOf(request, isSpan ? SPAN : LOCAL));
    const { requiredBytes = 0, limitBytes = 0 } = request.capacityRange ?? {};
    assert.ok(requiredBytes >= 0 && limitBytes >= 0, "CSI: sizes are not negative");
    assert.ok(Number.isSafeInteger(order.requestedBytes) && order.requestedBytes > 0, `${order.requestedBytes} bytes`);
    assert.ok(order.requestedBytes >= requiredBytes && (limitBytes === 0 || order.requestedBytes <= limitBytes));
    assert.ok(
      Number.isSafeInteger(order.memberBytes) && order.memberBytes > 0,
      `a member of ${order.memberBytes} bytes`,
    );
    assert.ok(order.maxBytes === undefined || order.requestedBytes <= order.maxBytes);
    assert.ok(Buffer.byteLength(request.name) <= 128, "CSI: a name has 128 bytes");
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these
    assert.doesNotMatch(
      request.name,
      /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/,
      "CSI: control characters",
    );
    assert.ok(isUUID(order.volumeUID) && isUUID(order.fsid) && volumeUIDOf(order.handle) === order.volumeUID);
    assert.match(`${order.claim.namespace}${order.claim.name}`, /^[a-z0-9.-]+$/);
    assert.equal(order.fsType === undefined, order.volumeMode === "Block");
    assert.ok(order.source === undefined || (volumeUIDOf(order.source) ?? snapshotUIDOf(order.source)) !== undefined);
  }),
  cost: 3,
};

const createSnapshot: FuzzTarget = {
  name: "CSI CreateSnapshot",
  parsers: ["src/operator/csi/snapshot-order.ts", "src/csi/volume-id.ts", "src/operator/csi/named-uid.ts"],
  seeds: () =>
    [
      { name: `snapshot-${VOLUME_UID}`, sourceVolumeId: HANDLE, secrets: {}, parameters: {} },
      {
        name: "mine",
        sourceVolumeId: HANDLE,
        secrets: {},
        parameters: { "csi.storage.k8s.io/volumesnapshot/name": "x" },
      },
    ].map((request) => Buffer.from(CreateSnapshotRequest.encode(CreateSnapshotRequest.fromPartial(request)).finish())),
  mutate: messageMutator(CreateSnapshotRequest, WORDS),
  refusals: ["Refused"],
  start: pure((input) => {
    const { snapshotId, source } = accepted(snapshotOrderOf(decoded(CreateSnapshotRequest.decode, input)));
    assert.match(`${snapshotId} ${source}`, /^snap-[0-9a-f-]{36} fs-[0-9a-f-]{36}$/);
  }),
};

const getCapacity: FuzzTarget = {
  name: "CSI GetCapacity",
  parsers: ["src/operator/csi/capacity-question.ts"],
  seeds: () => {
    const topology = { segments: { "topology.tidemark.dev/node": NODE } };
    const parameters = { backend: "lvm", deviceClass: "ssd", initialSize: "1Gi" };
    const one = { volumeCapabilities: [mountCapability("btrfs")], parameters, accessibleTopology: topology };
    return [one, { ...one, volumeCapabilities: [], parameters: { backend: "loop" } }].map((request) =>
      Buffer.from(GetCapacityRequest.encode(request).finish()),
    );
  },
  mutate: messageMutator(GetCapacityRequest, WORDS),
  refusals: ["Refused"],
  start: pure((input) => {
    const { ofClass, fsTypes } = accepted(capacityQuestion(decoded(GetCapacityRequest.decode, input), LOCAL));
    for (const bytes of [ofClass.initialBytes, ofClass.maxBytes])
      assert.ok(bytes === undefined || (Number.isSafeInteger(bytes) && bytes >= 0));
    assert.match(ofClass.deviceClass ?? "x", /^[\w.-]+$/);
    for (const fsType of fsTypes) assert.match(fsType, /^(btrfs|ext4|xfs)$/);
  }),
  cost: 2,
};

const publish: FuzzTarget = {
  name: "CSI NodePublishVolume",
  parsers: ["src/agent/kubelet-path.ts", "src/csi/access.ts"],
  seeds: () =>
    ["/pods/a/volumes/mount", "/plugins/x/../y", "//pods", ""].map((path) => {
      const fields = { volumeId: HANDLE, targetPath: `KUBELET${path}`, volumeCapability: mountCapability("btrfs") };
      return Buffer.from(NodePublishVolumeRequest.encode(NodePublishVolumeRequest.fromPartial(fields)).finish());
    }),
  mutate: messageMutator(NodePublishVolumeRequest, [
    ...WORDS,
    "KUBELET/pods/x",
    "KUBELET/",
    "/etc",
    "KUBELET/../etc",
    "\0",
  ]),
  refusals: ["Refused"],
  start: (directory) => {
    const kubelet = join(directory, "kubelet");
    mkdirSync(join(kubelet, "pods/a/volumes"), { recursive: true });
    return {
      take: (input) => {
        const { volumeId, targetPath, volumeCapability } = decoded(NodePublishVolumeRequest.decode, input);
        const handle = accepted(handleOf(volumeId));
        const path = accepted(kubeletPath(kubelet, targetPath.replace("KUBELET", kubelet)));
        accepted(accessOf(volumeCapability));
        assert.match(handle, /^fs-[0-9a-f-]{36}$/);
        assert.ok(path.startsWith(`${kubelet}/`) && !path.includes("/../") && !path.endsWith("/.."), path);
      },
    };
  },
  cost: 2,
};

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
  parsers: ["src/extender/read-args.ts", "src/extender/json-pieces.ts"],
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
  parsers: ["src/extender/json-pieces.ts"],
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
  parsers: ["src/policy-engine/process/sample-intake.ts"],
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
  parsers: ["src/kube/watch-stream.ts", "src/kube/status-error.ts"],
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

export const REQUEST_TARGETS: readonly FuzzTarget[] = [
  ...[createVolume, createSnapshot, getCapacity, publish],
  ...[review, extenderArguments, pieces, samples, watchEvents],
];
