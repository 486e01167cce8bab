// What one node's agent does about one volume, in this process: reconciler, runner, staging, locks and records as they are, on the
// simulated disk. Only what is outside is stood in for: the API server (`layout`, `told`) and the sampling thread (`read`). A second node
// of the same directory is a second agent; one with other locks is the next agent after the death of the first.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { storageByBackend } from "../../src/agent/choose-storage.ts";
import { recordWithLayout } from "../../src/agent/gather/layout-record.ts";
import type { AgentMetrics } from "../../src/agent/metrics.ts";
import type { StatusReporter } from "../../src/agent/report/status-reporter.ts";
import type { Sampler } from "../../src/agent/sampling/sampler.ts";
import { openReader } from "../../src/agent/storage/in-threads/read-filesystem.ts";
import { createSimulatedStorage } from "../../src/agent/storage/simulated/simulated-storage.ts";
import type { SpanStorage } from "../../src/agent/storage/span/span-storage.ts";
import type { Storage } from "../../src/agent/storage/storage.ts";
import { createNodeRecords, type NodeRecord, type NodeRecords } from "../../src/agent/volumes/node-records.ts";
import { NodeVolume, type VolumesByHandle } from "../../src/agent/volumes/node-volume.ts";
import { createVolumeWork, type VolumeWork } from "../../src/agent/volumes/node-volumes.ts";
import type { ReconcileEnvironment } from "../../src/agent/volumes/reconcile-node-volume.ts";
import { type NodeVolumeState, newVolumeState, volumeOf } from "../../src/agent/volumes/volume-state.ts";
import type { FilesystemLayout, LastOperation } from "../../src/contracts/kinds/filesystem-layout.ts";
import { systemClock } from "../../src/platform/process/clock.ts";
import { createCommandPort } from "../../src/platform/process/effects/command-port.ts";
import { directEffects, type Effects } from "../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../src/platform/process/effects/file-port.ts";
import { createLogger } from "../../src/platform/process/log.ts";
import { buildLayout } from "../builders/filesystem-layout.ts";

export interface SimulatedNode {
  readonly handle: string;
  readonly stagingPath: string;
  readonly work: VolumeWork;
  readonly storage: Storage;
  /** As the API server has it; `look` afterwards, as its watch would. */
  layout: FilesystemLayout;
  /** What the API server was told, in order: "running Extend", "idle", a warning's reason, an operation's outcome. */
  readonly told: string[];
  readonly ended: LastOperation[];
  /** Throws where nothing is known of the volume yet. */
  volume(): NodeVolume;
  state(): NodeVolumeState;
  look(): void;
  /** A reading by the sampling thread, now. */
  read(change?: Partial<NodeVolumeState["reading"]>): void;
  recordOnDisk(): NodeRecord | undefined;
  /** Of the member, and what the filesystem shows; undefined: there is no member. */
  sizeBytes(): Promise<number | undefined>;
  /** As kubelet does. */
  stage(): Promise<void>;
  stop(): Promise<void>;
}

export interface SimulatedNodeParts {
  readonly layout?: FilesystemLayout;
  /** What the agent before it has left: a mounted volume with this record. */
  readonly left?: Partial<NodeRecord>;
  readonly lockDirectory?: string;
  readonly effects?: Effects;
  /** Around the simulated disk. */
  readonly around?: (storage: Storage) => Partial<Storage>;
  /** Before the API server has taken what it is told. */
  readonly taking?: () => Promise<void>;
}

export async function createSimulatedNode(directory: string, parts: SimulatedNodeParts = {}): Promise<SimulatedNode> {
  const { layout = buildLayout(), effects = directEffects, taking = async () => undefined } = parts;
  const handle = layout.metadata.name;
  const [recordDirectory, memberDirectory] = [join(directory, "records"), join(directory, "members")];
  const lockDirectory = join(directory, parts.lockDirectory ?? "locks");
  for (const path of [recordDirectory, memberDirectory, lockDirectory]) mkdirSync(path, { recursive: true });
  const stagingPath = join(directory, "staging", handle);
  const files = createFilePort(effects);
  const records = createNodeRecords(recordDirectory, files, (_path, error) => {
    throw error;
  });
  const disk = createSimulatedStorage({ directory: memberDirectory, files, clock: systemClock });
  // A span of a test is on it too, without members.
  const span = disk as Partial<Storage> as Partial<Storage> & SpanStorage;
  const simulated = storageByBackend(disk, { lvm: undefined, span });
  const storage: Storage = { ...simulated, ...parts.around?.(simulated) };
  const volumes: VolumesByHandle = new Map();
  if (parts.left !== undefined)
    await leave(storage, records, recordWithLayout(layout, undefined), stagingPath, parts.left);
  for (const record of records.readAll()) volumes.set(record.handle, new NodeVolume(newVolumeState(record, true)));
  const [told, ended]: [string[], LastOperation[]] = [[], []];

  const read: SimulatedNode["read"] = (change = {}) => {
    const mounted = node.state().mounted?.volume;
    if (mounted === undefined || !("fsType" in mounted)) return;
    const reader = openReader(mounted);
    const reading = { ...reader.read(), growthBytesPerSecond: 0, peakWriteBytesPerSecond: 0, ...change };
    node.volume().dispatch({ type: "ReadingArrived", reading });
    reader.close();
  };
  const environment: Omit<ReconcileEnvironment, "staging" | "runner"> = {
    ...{
      nodeName: "node-a",
      volumes,
      storage,
      records,
      clock: systemClock,
      bootID: "boot-a",
      log: createLogger("test", "silent"),
    },
    layouts: { get: (name) => (name === handle ? node.layout : undefined) } as ReconcileEnvironment["layouts"],
    layoutsKnown: () => true,
    sampler: samplerOf(read),
    reporter: reporterOf(volumes, told, ended, taking),
  };
  const work = createVolumeWork({
    ...{ ...environment, lockDirectory, files, commands: createCommandPort(directEffects), resized: () => undefined },
    changed: (name) => work.queue.add(name),
    metrics: { operationEnded: () => undefined } as Partial<AgentMetrics> as AgentMetrics,
  });
  const node: SimulatedNode = {
    ...{ handle, stagingPath, work, storage, layout, told, ended, read },
    volume: () => {
      const volume = volumes.get(handle);
      if (volume === undefined) throw new Error(`${handle} is not known on this node yet`);
      return volume;
    },
    state: () => node.volume().state,
    look: () => work.queue.add(handle),
    recordOnDisk: () => records.readAll().find((record) => record.handle === handle),
    sizeBytes: async () => storage.sizeBytes(volumeOf(recordWithLayout(node.layout, undefined))),
    stage: async () => {
      const record = recordWithLayout(node.layout, undefined);
      if (!volumes.has(handle)) volumes.set(handle, new NodeVolume(newVolumeState(record, false)));
      await work.staging.stage(node.volume(), stagingPath);
    },
    stop: async () => {
      await work.stop();
      const volume = volumes.get(handle);
      if (volume?.state.mounted !== undefined) await work.staging.unstage(volume, stagingPath);
    },
  };
  return node;
}

/** A mounted volume, and its record, without an agent: it has died. */
async function leave(
  storage: Storage,
  records: NodeRecords,
  record: NodeRecord,
  stagingPath: string,
  left: Partial<NodeRecord>,
): Promise<void> {
  const made = { ...record, memberMade: true, stagingPath, ...left } as NodeRecord;
  const sizeBytes = made.backend === "loop" ? (made.initialSizeBytes ?? 0) : 0;
  mkdirSync(stagingPath, { recursive: true });
  await storage.stage(volumeOf(made), sizeBytes, stagingPath);
  await records.write(made, "ProcessDeath");
}

function samplerOf(read: () => void): Sampler {
  return {
    watch: read,
    forget: () => undefined,
    setMinAvailable: () => undefined,
    operation: (_handle: string, inProgress: boolean) => {
      if (!inProgress) read();
    },
  } as Partial<Sampler> as Sampler;
}

function reporterOf(
  volumes: VolumesByHandle,
  told: string[],
  ended: LastOperation[],
  taking: () => Promise<void>,
): StatusReporter {
  return {
    announce: async () => undefined,
    report: async (handle) => {
      const running = volumes.get(handle)?.state.running;
      await taking();
      told.push(running === undefined ? "idle" : `running ${running.operation.kind}`);
    },
    operationEnded: (_state, operation) => {
      ended.push(operation);
      told.push(operation.outcome);
    },
    warn: (_state, reason) => told.push(reason),
  };
}
