// Reports to the API server what this node has for members, on its NodeStorage: at the start, whenever a figure has changed that is worth
// it, and now and then anyway, since the object may have been deleted. How busy the disks under its logical volumes are is read once a
// minute. Nothing on this node depends on it, so what fails is tried again at the next look.

import { readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import type { DeviceClass } from "../../contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import { NODE_STORAGES, type NodeStorageStatus } from "../../contracts/kinds/node-storage.ts";
import { CSI_NODES, type CSINode } from "../../contracts/kubernetes/resources.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../contracts/names.ts";
import { createReflector } from "../../platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { isKubeError } from "../../platform/kube/kube-error.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { DeviceClasses } from "../lvmd-client/lvmd-calls.ts";
import type { FreeSpace } from "../storage/storage.ts";
import type { VolumesByHandle } from "../volumes/node-volume.ts";
import { nodeStorageStatus } from "./node-storage-status.ts";

export interface NodeStorageParts {
  readonly nodeName: string;
  readonly client: Pick<KubeClient, "apply">;
  readonly storage: FreeSpace;
  /** Undefined: the node has no lvmd, or it has not been heard yet. */
  readonly classes: () => readonly DeviceClass[] | undefined;
  readonly csiNode: () => CSINode | undefined;
  readonly ioUtilizationRatio: () => number | undefined;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly log: Logger;
}

export interface NodeStorageReporter {
  /** Something may have changed: the report follows within a second, and includes what else changes by then. */
  changed(): void;
  stop(): Promise<void>;
}

/** How often the free bytes for loop members are measured: no event announces a change. */
const LOOK_INTERVAL_MS = 10_000;
/** Between two writes at least. */
const SPACING_MS = 500;
/** After this time the status is written again although nothing has changed, since another client may have deleted the object. */
const TELL_AGAIN_MS = 300_000;
const TOLD_CHANGE_RATIO = 0.01;
const APPLY = { fieldManager: FIELD_MANAGERS.agent, force: true } as const;

export function startNodeStorageReporter(parts: NodeStorageParts): NodeStorageReporter {
  const look = createNodeStorageReport(parts);
  let looking: Promise<void> | undefined;
  let soon: NodeJS.Timeout | undefined;
  const lookAgain = (): void => {
    soon = undefined;
    looking ??= look()
      .catch((err: unknown) => parts.log.warn({ err }, "what the node has for members is not reported"))
      .finally(() => {
        looking = undefined;
      });
  };
  const changed = (): void => {
    soon ??= setTimeout(() => {
      // The report under way may be older than the change.
      if (looking === undefined) lookAgain();
      else void looking.finally(lookAgain);
    }, SPACING_MS);
  };
  lookAgain();
  const timer = setInterval(lookAgain, LOOK_INTERVAL_MS);
  return {
    changed,
    stop: async () => {
      clearInterval(timer);
      clearTimeout(soon);
      await looking;
    },
  };
}

/** One look: measures, and writes what is worth a write. Rejects when either failed; the next look tries again. */
export function createNodeStorageReport(parts: NodeStorageParts): () => Promise<void> {
  let told: Told | undefined;
  return async () => {
    const loopFreeBytes = (await parts.storage.freeBytes()) ?? 0;
    const { classes, csiNode, ioUtilizationRatio } = parts;
    const facts = { classes: classes(), csiNode: csiNode(), ioUtilizationRatio: ioUtilizationRatio() };
    const others = JSON.stringify(nodeStorageStatus({ loopFreeBytes: 0, ...facts }));
    const now = { freeBytes: loopFreeBytes, others, atMs: parts.clock.monotonicMs() };
    if (told !== undefined && !isWorthTelling(told, now)) return;
    const status = nodeStorageStatus({ loopFreeBytes, ...facts });
    await tell(parts, status, told === undefined).catch((error: unknown) => {
      if (!isKubeError(error, "NotFound")) throw error;
      return tell(parts, status, true); // another client has deleted it
    });
    told = now;
  };
}

interface Told {
  /** Of the node's own disk. */
  readonly freeBytes: number;
  /** All else in the status. */
  readonly others: string;
  /** Monotonic. */
  readonly atMs: number;
}

export function isWorthTelling(told: Told, now: Told): boolean {
  if (now.atMs - told.atMs >= TELL_AGAIN_MS || now.others !== told.others) return true;
  return Math.abs(now.freeBytes - told.freeBytes) > told.freeBytes * TOLD_CHANGE_RATIO;
}

async function tell(
  { nodeName, client }: NodeStorageParts,
  status: NodeStorageStatus,
  isFirst: boolean,
): Promise<void> {
  const identity = { apiVersion: API_VERSION, kind: NODE_STORAGES.kind, metadata: { name: nodeName } };
  if (isFirst) await client.apply("node-storage/object", NODE_STORAGES, { ...identity, spec: {} }, APPLY);
  await client.apply(
    "node-storage/status",
    NODE_STORAGES,
    { ...identity, status },
    { ...APPLY, subresource: "status" },
  );
}

export interface NodeStorageSources {
  readonly nodeName: string;
  readonly client: KubeClient;
  readonly storage: FreeSpace;
  /** Undefined: the node has no lvmd. */
  readonly classes: DeviceClasses | undefined;
  readonly volumes: VolumesByHandle;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * The reporter with what says that something has changed: lvmd its classes, the API server its CSINode, a minute's end the work of its
 * disks.
 */
export function reportNodeStorage(sources: NodeStorageSources): { stop(): Promise<void> } {
  const { nodeName, client, classes, volumes, clock, log } = sources;
  const select = { fieldSelector: `metadata.name=${nodeName}` };
  const csiNodes = createReflector({ client, resource: CSI_NODES, select, log });
  const changed = (): void => reporter.changed();
  const utilization = startDiskUtilization(volumes, clock, changed);
  const reporter = startNodeStorageReporter({
    ...sources,
    classes: () => classes?.list(),
    csiNode: () => csiNodes.store.get(nodeName),
    ioUtilizationRatio: utilization.ratio,
  });
  classes?.subscribe(changed);
  csiNodes.subscribe({ added: changed, updated: changed, deleted: changed });
  csiNodes.start();
  return {
    stop: async () => {
      utilization.stop();
      await Promise.all([csiNodes.stop(), reporter.stop()]);
    },
  };
}

export interface DiskUtilization {
  /** 0..1; undefined: nothing is mounted, or no minute is over yet. */
  ratio(): number | undefined;
  stop(): void;
}

const INTERVAL_MS = 60_000;
/** Column of a block device's stat: milliseconds in which at least one request was under way. */
const IO_TICKS_COLUMN = 9;

function startDiskUtilization(
  volumes: VolumesByHandle,
  clock: Pick<Clock, "monotonicMs">,
  measured: () => void,
): DiskUtilization {
  let before = readTicks(volumes);
  let beforeMs = clock.monotonicMs();
  let ratio: number | undefined;
  const timer = setInterval(() => {
    const [ticks, nowMs] = [readTicks(volumes), clock.monotonicMs()];
    ratio = busiest(before, ticks, nowMs - beforeMs);
    [before, beforeMs] = [ticks, nowMs];
    measured();
  }, INTERVAL_MS);
  return { ratio: () => ratio, stop: () => clearInterval(timer) };
}

/** Of disks that were seen at both ends. */
export function busiest(
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
  elapsedMs: number,
): number | undefined {
  const ratios = [...after].flatMap(([disk, ticksMs]) => {
    const earlierMs = before.get(disk);
    return earlierMs === undefined ? [] : [Math.min(1, Math.max(0, (ticksMs - earlierMs) / Math.max(1, elapsedMs)))];
  });
  return ratios.length === 0 ? undefined : Math.max(...ratios);
}

function readTicks(volumes: VolumesByHandle): Map<string, number> {
  const devices = [...volumes.values()].flatMap(({ state: { mounted } }) =>
    mounted?.volume.backend === "lvm" ? [mounted.volume.device] : [],
  );
  const disks = new Set(devices.flatMap((device) => disksUnder(basename(device))));
  return new Map([...disks].flatMap((disk) => ticksOf(disk)));
}

/** A logical volume lies on partitions or disks, a thin one on its pool's volumes before that. */
function disksUnder(name: string): string[] {
  const below = slavesOf(name);
  return below.length === 0 ? [name] : below.flatMap(disksUnder);
}

function slavesOf(name: string): string[] {
  try {
    return readdirSync(`/sys/class/block/${name}/slaves`);
  } catch {
    return []; // a partition has none, and a device may have gone
  }
}

function ticksOf(disk: string): [string, number][] {
  try {
    const columns = readFileSync(`/sys/class/block/${disk}/stat`, "utf8").trim().split(/\s+/);
    return [[disk, Number(columns[IO_TICKS_COLUMN])]];
  } catch {
    return [];
  }
}
