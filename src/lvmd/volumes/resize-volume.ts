// Makes a volume, or a class' thin pool, larger, never smaller.
import { invalidArgument, Refusal } from "../../contracts/csi/refusal.ts";
import {
  type ClassState,
  type Columns,
  columnsOf,
  LINEAR,
  roundUp,
  takenBytes,
  thickRoomBytes,
} from "../classes/class-state.ts";
import { refuseVolumeName, resizeArguments } from "../lvm/lvm.ts";
import { refuses } from "../lvm/lvm-error.ts";
import type { ReportedVolume } from "../lvm/report.ts";
import type { DeviceClass } from "../settings/settings.ts";
import { cancelReduce } from "./reduce/reduce-volume.ts";
import type { ReduceTokens } from "./reduce/reductions.ts";
import { refuseWiped } from "./remove-volume.ts";
import { askedBytes, refuseShortage, refuseSize } from "./sizes.ts";
import {
  classOf,
  type FoundVolume,
  freshStateOf,
  freshVolumeOf,
  type VolumeHost,
  volumeOf,
  withDevice,
} from "./volume-host.ts";

/** The size now: what was asked for, in whole extents, or what it was when that is not less, as it is for 0 bytes. */
export async function resizeVolume(
  host: VolumeHost,
  tokens: ReduceTokens,
  className: string,
  name: string,
  sizeBytes: number,
): Promise<number> {
  const deviceClass = classOf(host, className);
  refuseVolumeName(name);
  if (sizeBytes !== 0) refuseSize(sizeBytes);
  for (let attempt = 0; ; attempt += 1) {
    const turn = (): Promise<Resized> => resizeInTurn(host, tokens, deviceClass, name, sizeBytes);
    const resized = await host.queues.run(deviceClass.volumeGroup, turn);
    if (typeof resized === "number") return resized;
    await endReduction(host, tokens, resized);
    if (attempt === REPEATS_LIMIT) throw preempted();
  }
}

/** `reducing`: the volume's UUID. `open`: the token of a reduction that is not under way, and whose end no caller has heard. */
type InTheWay = { readonly reducing: string } | { readonly open: string };

/** Nothing was done yet where something is in the way. */
type Resized = number | InTheWay;

/** More reductions of one volume in a row than any caller asks for. */
const REPEATS_LIMIT = 3;

function preempted(): Refusal {
  return new Refusal("ABORTED", "the volume is to be grown, or is to stay as it is: its reduction was stopped");
}

/** Not in the group's turn: the reduction may wait for it, and other volumes need not wait for a piece that is zeroed. */
async function endReduction(host: VolumeHost, tokens: ReduceTokens, inTheWay: InTheWay): Promise<void> {
  if ("reducing" in inTheWay) await host.reductions.preempt(inTheWay.reducing, preempted());
  // Its caller may have lost its token: the volume would never grow again.
  else await cancelReduce(host, tokens, inTheWay.open);
}

async function resizeInTurn(
  host: VolumeHost,
  tokens: ReduceTokens,
  deviceClass: DeviceClass,
  name: string,
  sizeBytes: number,
): Promise<Resized> {
  const known = await volumeOf(host, deviceClass, name);
  refuseWiped(known.state.group.name, known.volume);
  // After the answer, whatever it is, the filesystem may grow, and nothing behind it may be zeroed.
  if (host.reductions.isReducing(known.volume.uuid)) return { reducing: known.volume.uuid };
  // The size shows what became of a reduction: it must be known before the size changes.
  const open = tokens.openOf(known.volume.uuid);
  if (open !== undefined) return { open: open.token };
  if (sizeBytes <= known.volume.sizeBytes) return known.volume.sizeBytes;
  const refuse = (volume: FoundVolume): void => refuseGrowth(volume, sizeBytes, columnsFor(deviceClass));
  const found = refuses(() => refuse(known)) ? await freshVolumeOf(host, deviceClass, name) : known;
  refuse(found);
  await host.lvm.run(
    "lvmd-resize/lvresize",
    "lvresize",
    resizeArguments(deviceClass.volumeGroup, name, askedBytes(sizeBytes)),
  );
  const now = await withDevice(host, deviceClass, name);
  const grownBytes = now.sizeBytes - found.volume.sizeBytes;
  host.reports.note({
    kind: "Resized",
    group: deviceClass.volumeGroup,
    name,
    sizeBytes: now.sizeBytes,
    takenBytes: deviceClass.thinPool === undefined ? takenBytes(grownBytes, columnsFor(deviceClass)) : 0,
  });
  return now.sizeBytes;
}

function columnsFor(deviceClass: DeviceClass): Columns {
  return deviceClass.thinPool === undefined ? columnsOf(deviceClass, undefined) : LINEAR;
}

function refuseGrowth({ state, volume }: FoundVolume, sizeBytes: number, columns: Columns): void {
  const { group, thin, freeBytes, deviceClass } = state;
  const wholeBytes = roundUp(sizeBytes, group.extentBytes * volume.dataColumns);
  const roomBytes = thin === undefined ? thickRoomBytes(group, deviceClass.spareBytes, columns) : freeBytes;
  refuseShortage(state, wholeBytes - volume.sizeBytes, roomBytes);
}

// Makes a class' thin pool larger: its metadata first, since a pool that runs out of those stops permanently. The class' spare stays.

interface PoolSizes {
  /** 0: as it is. */
  readonly sizeBytes: number;
  /** 0: as they are. */
  readonly metadataSizeBytes: number;
}

/** The sizes now; never less than they were. */
export async function extendThinPool(host: VolumeHost, className: string, wanted: PoolSizes): Promise<PoolSizes> {
  const deviceClass = classOf(host, className);
  const { thinPool } = deviceClass;
  if (thinPool === undefined) throw invalidArgument(`device class ${deviceClass.name} is thick: it has no pool`);
  for (const bytes of [wanted.sizeBytes, wanted.metadataSizeBytes])
    if (bytes < 0) throw invalidArgument(`a size of ${bytes} bytes cannot be`);
  return host.queues.run(deviceClass.volumeGroup, () => extendInTurn(host, deviceClass, wanted));
}

async function extendInTurn(host: VolumeHost, deviceClass: DeviceClass, wanted: PoolSizes): Promise<PoolSizes> {
  const state = await freshStateOf(host, deviceClass);
  if (state.thin === undefined) throw invalidArgument(`device class ${deviceClass.name} is thick: it has no pool`);
  const { pool } = state.thin;
  const { extentBytes } = state.group;
  const sizeBytes = Math.max(pool.sizeBytes, roundUp(wanted.sizeBytes, extentBytes * pool.dataColumns));
  const metadataSizeBytes = Math.max(pool.metadataSizeBytes, roundUp(wanted.metadataSizeBytes, extentBytes));
  refusePoolShortage(state, pool, { sizeBytes, metadataSizeBytes });
  const target = `${state.group.name}/${pool.name}`;
  if (metadataSizeBytes > pool.metadataSizeBytes)
    await host.lvm.run("lvmd-pool/extend-metadata", "lvextend", [
      "--poolmetadatasize",
      `${metadataSizeBytes}b`,
      target,
    ]);
  if (sizeBytes > pool.sizeBytes)
    await host.lvm.run("lvmd-pool/extend-data", "lvextend", ["-L", `${sizeBytes}b`, target]);
  const now = await freshStateOf(host, deviceClass);
  return now.thin?.pool ?? { sizeBytes, metadataSizeBytes };
}

function refusePoolShortage(state: ClassState, pool: ReportedVolume, target: PoolSizes): void {
  const { group, deviceClass } = state;
  // LVM keeps a second copy of the metadata's place, to repair them in.
  const neededBytes = target.sizeBytes - pool.sizeBytes + 2 * (target.metadataSizeBytes - pool.metadataSizeBytes);
  refuseShortage(state, neededBytes, Math.max(0, neededBytes === 0 ? 0 : group.freeBytes - deviceClass.spareBytes));
}
