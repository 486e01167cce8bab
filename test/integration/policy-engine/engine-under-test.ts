// The policy-engine in this process, against a real embedded control plane and a real sample stream; the test plays the agent and
// the operator: it writes layouts and sends samples.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ClientDuplexStream, credentials } from "@grpc/grpc-js";
import { bootstrap } from "../../../demo/stand-ins/bootstrap.ts";
import {
  type AgentMessage,
  type EngineMessage,
  type Guidance,
  type Sample,
  SamplesClient,
} from "../../../src/contracts/gen/tidemark/samples/v1/samples.ts";
import { fsidOf, volumeHandleOf } from "../../../src/contracts/identity.ts";
import { FILESYSTEMS, type Filesystem } from "../../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { VOLUME_POLICIES, type VolumePolicySpec } from "../../../src/contracts/kinds/volume-policy.ts";
import { PERSISTENT_VOLUME_CLAIMS } from "../../../src/contracts/kubernetes/resources.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../../src/contracts/names.ts";
import { formatQuantity } from "../../../src/contracts/quantities/quantity.ts";
import type { ConditionReason } from "../../../src/contracts/reasons.ts";
import { datedCondition } from "../../../src/contracts/schema/condition.ts";
import { createKubeClient } from "../../../src/platform/kube/client/http-client.ts";
import { createEventRecorder } from "../../../src/platform/kube/events/events.ts";
import { type Clock, systemClock } from "../../../src/platform/process/clock.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { serveOnSocket } from "../../../src/platform/process/grpc.ts";
import { createLeadership } from "../../../src/policy-engine/apply/leadership.ts";
import { readConfig } from "../../../src/policy-engine/config.ts";
import { createDecisions } from "../../../src/policy-engine/engine/decisions.ts";
import { createCaches } from "../../../src/policy-engine/gather/caches.ts";
import { createEngineMetrics } from "../../../src/policy-engine/metrics.ts";
import { createRecordingLog } from "../../fakes/recording-log.ts";
import { startApiUnderTest } from "../../harness/api-under-test.ts";
import { untilRead } from "../../harness/wait-for.ts";

const NODE = "node-1";

export async function startCluster() {
  const { log } = createRecordingLog();
  const controlPlane = await startApiUnderTest({ port: 0, log });
  const client = createKubeClient({ connection: { server: controlPlane.url }, effects: directEffects, log });
  await bootstrap(client, {
    crdDirectory: "kustomize/foundation/crds",
    nodeName: NODE,
    initialSize: "1Gi",
    fsType: "btrfs",
  });
  return {
    client,
    url: controlPlane.url,
    stop: async () => {
      await client.close();
      await controlPlane.close();
    },
  };
}

export type Cluster = Awaited<ReturnType<typeof startCluster>>;

/** One replica of the engine, with the test as the agent of node-1. */
export async function startEngine(cluster: Cluster, args: readonly string[] = [], clock: Clock = systemClock) {
  const directory = mkdtempSync(join(tmpdir(), "tidemark-engine-"));
  const config = readConfig(
    ["--server", cluster.url, "--samples-socket", join(directory, "samples.sock"), ...args],
    {},
  );
  const { log, lines } = createRecordingLog();
  const { nowMs } = clock;
  const client = createKubeClient({ connection: { server: cluster.url }, effects: directEffects, log });
  const events = createEventRecorder({ client, component: "tidemark-policy-engine", nowMs, log });
  const caches = createCaches(client, log);
  const leadership = createLeadership(client, caches, config, log, () => decisions.decideAll());
  const decisions = createDecisions({
    client,
    events,
    caches,
    leadership,
    metrics: createEngineMetrics(leadership.isLeader),
    config,
    clock,
    log,
  });
  caches.start();
  await caches.synced;
  const server = await serveOnSocket(config.samplesSocket, [decisions.samples]);
  decisions.start();
  await decisions.policies.settled();
  leadership.start();

  const agent = new SamplesClient(`unix://${config.samplesSocket}`, credentials.createInsecure());
  const guidance: Guidance[] = [];
  const greet = (): ClientDuplexStream<AgentMessage, EngineMessage> => {
    const greeting = agent.stream();
    greeting.on("data", (message: EngineMessage) => guidance.push(...message.guidance));
    greeting.on("error", () => {});
    greeting.write({ message: { $case: "hello", value: { nodeName: NODE, highestEpoch: 0 } } });
    return greeting;
  };
  let stream = greet();
  return {
    leadership,
    decisions,
    guidance,
    lines,
    send: (volumeHandle: string, usage: Usage) => {
      stream.write({ message: { $case: "batch", value: { samples: [sample(volumeHandle, usage)] } } });
    },
    /** As they are. */
    sendSamples: (samples: readonly Sample[]) => {
      stream.write({ message: { $case: "batch", value: { samples: [...samples] } } });
    },
    /** As an agent that was started again: it has forgotten what it was told. */
    restartAgent: () => {
      stream.end();
      guidance.length = 0;
      stream = greet();
    },
    stop: async () => {
      stream.end();
      agent.close();
      await server.close();
      await decisions.stop();
      await leadership.stop();
      await caches.stop();
      await client.close();
      rmSync(directory, { recursive: true });
    },
  };
}

export type EngineUnderTest = Awaited<ReturnType<typeof startEngine>>;

export interface Usage {
  readonly sizeBytes: number;
  readonly usedBytes: number;
  readonly sampledAtMs?: number;
  readonly growthBytesPerSecond?: number;
}

export function sample(
  volumeHandle: string,
  { sizeBytes, usedBytes, sampledAtMs, growthBytesPerSecond }: Usage,
): Sample {
  return {
    volumeHandle,
    sampledAtMs: sampledAtMs ?? Date.now(),
    sizeBytes,
    capacityBytes: sizeBytes,
    availableBytes: sizeBytes - usedBytes,
    inodesTotal: 0,
    inodesUsed: 0,
    dataProfiles: 0,
    growthBytesPerSecond: growthBytesPerSecond ?? 0,
    peakWriteBytesPerSecond: 0,
    operationInProgress: false,
    lastOperationEndedAtMs: 0,
    ioUtilizationRatio: 0,
    nodeFreeBytes: 2 ** 40,
  };
}

/** A claim with its filesystem and layout, as operator and agent would have left them. */
export async function makeVolume(cluster: Cluster, name: string, sizeBytes: number): Promise<string> {
  const { client } = cluster;
  const namespace = "default";
  const claim = await client.apply(
    "test/claim",
    PERSISTENT_VOLUME_CLAIMS,
    {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { namespace, name },
      spec: {
        accessModes: ["ReadWriteOnce"],
        storageClassName: "tidemark-loop",
        resources: { requests: { storage: "10Gi" } },
      },
    },
    { fieldManager: "test" },
  );
  const uid = claim.metadata.uid ?? "";
  const handle = volumeHandleOf(uid);
  const base = { apiVersion: API_VERSION, metadata: { namespace, name } };
  await client.apply(
    "test/filesystem",
    FILESYSTEMS,
    { ...base, kind: "Filesystem", spec: { claimRef: { name, uid } } },
    { fieldManager: FIELD_MANAGERS.operator },
  );
  await client.apply(
    "test/layout",
    FILESYSTEM_LAYOUTS,
    {
      apiVersion: API_VERSION,
      kind: "FilesystemLayout",
      metadata: { name: handle },
      spec: {
        claimRef: { namespace, name, uid },
        volumeUID: uid,
        backend: "loop",
        fsType: "btrfs",
        nodeName: NODE,
        members: [{ name: "m0", source: {} }],
      },
    },
    { fieldManager: FIELD_MANAGERS.operator },
  );
  await reportSize(cluster, handle, sizeBytes);
  return handle;
}

/** What the agent reports once it has carried something out. */
export async function reportSize(
  cluster: Cluster,
  handle: string,
  sizeBytes: number,
  status: object = {},
): Promise<void> {
  await cluster.client.apply(
    "test/layout-status",
    FILESYSTEM_LAYOUTS,
    {
      apiVersion: API_VERSION,
      kind: "FilesystemLayout",
      metadata: { name: handle },
      status: {
        fsid: fsidOf(handle.slice(3)),
        nodeName: NODE,
        members: [{ name: "m0", size: formatQuantity(sizeBytes), state: "Present" }],
        ...status,
      },
    },
    { fieldManager: FIELD_MANAGERS.agent, subresource: "status" },
  );
}

/** What the operator says of a target that is not carried out. */
export async function sayStalled(cluster: Cluster, name: string, reason: ConditionReason): Promise<void> {
  const statement = { type: "Stalled", status: "True", reason, message: "said by the test" } as const;
  await cluster.client.apply(
    "test/filesystem-status",
    FILESYSTEMS,
    {
      apiVersion: API_VERSION,
      kind: "Filesystem",
      metadata: { namespace: "default", name },
      status: { conditions: [datedCondition(statement, undefined, 1, Date.now())] },
    },
    { fieldManager: FIELD_MANAGERS.operator, subresource: "status" },
  );
}

export async function applyPolicy(
  cluster: Cluster,
  name: string,
  spec: Partial<VolumePolicySpec> & object,
): Promise<void> {
  await cluster.client.apply(
    "test/policy",
    VOLUME_POLICIES,
    { apiVersion: API_VERSION, kind: "VolumePolicy", metadata: { namespace: "default", name }, spec },
    { fieldManager: "test", force: true },
  );
}

export async function untilFilesystem(
  cluster: Cluster,
  name: string,
  what: string,
  holds: (filesystem: Filesystem) => boolean,
): Promise<Filesystem> {
  const read = () => cluster.client.get(FILESYSTEMS, { namespace: "default", name });
  const isThere = (seen: Filesystem | undefined) => seen !== undefined && holds(seen);
  return (await untilRead(what, read, isThere)) as Filesystem;
}

export async function layoutOf(cluster: Cluster, handle: string): Promise<FilesystemLayout | undefined> {
  return cluster.client.get(FILESYSTEM_LAYOUTS, { name: handle });
}
