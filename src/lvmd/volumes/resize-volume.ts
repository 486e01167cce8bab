// Makes a volume larger, never smaller.
import { Refusal } from "../../csi/refusal.ts";
import type { ClassState } from "../classes/class-state.ts";
import { type Columns, columnsOf, LINEAR } from "../classes/columns.ts";
import { roundUp, takenBytes, thickRoomBytes } from "../classes/room.ts";
import { resizeArguments } from "../lvm/arguments.ts";
import { refuseVolumeName } from "../lvm/lvm-names.ts";
import type { ReportedVolume } from "../lvm/report.ts";
import type { DeviceClass } from "../settings/settings.ts";
import type { ReduceTokens } from "./reduce-tokens.ts";
import { cancelReduce } from "./reduce-volume.ts";
import { askedBytes, refuseShortage, refuseSize } from "./sizes.ts";
import { classOf, freshVolumeOf, type VolumeHost, volumeOf, withDevice } from "./volume-host.ts";
import { refuseWiped } from "./wipe-mark.ts";

/** The size now: what was asked for, in whole extents, or what it was when that is not less, as it is for 0 bytes. */
export async function resizeVolume(
  host: VolumeHost,
  tokens: ReduceTokens,
  className: string,
  name: string,
  sizeBytes: number,
): Promise<number | Refusal> {
  const deviceClass = classOf(host, className);
  if (deviceClass instanceof Refusal) return deviceClass;
  const refusal = refuseVolumeName(name) ?? (sizeBytes === 0 ? undefined : refuseSize(sizeBytes));
  if (refusal !== undefined) return refusal;
  for (let attempt = 0; ; attempt += 1) {
    const turn = (): Promise<Resized> => resizeInTurn(host, tokens, deviceClass, name, sizeBytes);
    const resized = await host.lanes.run(deviceClass.volumeGroup, turn);
    if (typeof resized === "number" || resized instanceof Refusal) return resized;
    const unended = await endReduction(host, tokens, resized);
    if (unended !== undefined) return unended;
    if (attempt === REPEATS_LIMIT) return preempted();
  }
}

/** `reducing`: the volume's UUID. `open`: the token of a reduction that nobody is at, and whose end nobody has been told. */
type InTheWay = { readonly reducing: string } | { readonly open: string };

/** Nothing was done yet where something is in the way. */
type Resized = number | Refusal | InTheWay;

/** As many reductions of one volume, one right after the other, nobody asks for. */
const REPEATS_LIMIT = 3;

function preempted(): Refusal {
  return new Refusal("ABORTED", "the volume is to be grown, or is to stay as it is: its reduction was stopped");
}

/** Not in the group's turn: the reduction may wait for it, and other volumes need not wait for a piece that is zeroed. */
async function endReduction(host: VolumeHost, tokens: ReduceTokens, inTheWay: InTheWay): Promise<Refusal | undefined> {
  if ("reducing" in inTheWay) {
    await host.reductions.preempt(inTheWay.reducing, preempted());
    return undefined;
  }
  // Whoever has asked for it may have lost its token: the volume would never grow again.
  const outcome = await cancelReduce(host, tokens, inTheWay.open);
  return outcome instanceof Refusal ? outcome : undefined;
}

async function resizeInTurn(
  host: VolumeHost,
  tokens: ReduceTokens,
  deviceClass: DeviceClass,
  name: string,
  sizeBytes: number,
): Promise<Resized> {
  let found = await volumeOf(host, deviceClass, name);
  if (found instanceof Refusal) return found;
  const wiped = refuseWiped(found.state.group.name, found.volume);
  if (wiped !== undefined) return wiped;
  // Whatever the answer is: after it the filesystem may grow, and nothing may be zeroed behind it any more.
  if (host.reductions.isReducing(found.volume.uuid)) return { reducing: found.volume.uuid };
  // What became of a reduction is told by the size: it must be known before the size changes.
  const open = tokens.openOf(found.volume.uuid);
  if (open !== undefined) return { open: open.token };
  if (sizeBytes <= found.volume.sizeBytes) return found.volume.sizeBytes;
  const shortage = (state: ClassState, volume: ReportedVolume): Refusal | undefined =>
    refuseGrowth(state, volume, sizeBytes, columnsFor(deviceClass));
  if (shortage(found.state, found.volume) !== undefined) found = await freshVolumeOf(host, deviceClass, name);
  if (found instanceof Refusal) return found;
  const refusal = shortage(found.state, found.volume);
  if (refusal !== undefined) return refusal;
  await host.lvm.run(
    "lvmd-resize/lvresize",
    "lvresize",
    resizeArguments(deviceClass.volumeGroup, name, askedBytes(sizeBytes)),
  );
  const now = await withDevice(host, deviceClass, name);
  if (now instanceof Refusal) return now;
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

function refuseGrowth(
  state: ClassState,
  volume: ReportedVolume,
  sizeBytes: number,
  columns: Columns,
): Refusal | undefined {
  const { group, thin, freeBytes, deviceClass } = state;
  const wholeBytes = roundUp(sizeBytes, group.extentBytes * volume.dataColumns);
  const roomBytes = thin === undefined ? thickRoomBytes(group, deviceClass.spareBytes, columns) : freeBytes;
  return refuseShortage(state, wholeBytes - volume.sizeBytes, roomBytes);
}
