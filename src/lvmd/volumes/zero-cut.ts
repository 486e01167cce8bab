// Overwrites what is to be cut off a thick volume with zeros, while that is mounted: LVM gives its extents to whoever is next. In small
// pieces, since whoever wants the volume to grow waits for one; before each the filesystem is proved to end in front of it once more.
import { type FileHandle, open } from "node:fs/promises";
import { Refusal } from "../../csi/refusal.ts";
import { deviceNumber, isDeviceOf, kernelPathOf, readDeviceNode } from "../device-node.ts";
import { LvmError } from "../lvm/lvm-error.ts";
import type { ReportedVolume } from "../lvm/report.ts";
import { readSignature } from "./read-signature.ts";
import { refuseCut } from "./reduce-decision.ts";
import type { ReduceRequest } from "./reduce-tokens.ts";
import type { ReductionUnderWay, Stop } from "./reductions-under-way.ts";
import type { VolumeHost } from "./volume-host.ts";
import { zeroPiece } from "./zero-volume.ts";

/** An extend waits for one of them at most. */
const PIECE_BYTES = 64 * 2 ** 20;

/** A device that no other volume can become while it is held: its name in LVM may change, the kernel's and its number do not. */
export interface HeldDevice {
  readonly path: string;
  /** As the kernel has it now. */
  sizeBytes(): Promise<number | undefined>;
  close(): Promise<void>;
}

/** In the group's turn, with a report made in it. Throws LvmError where the device is not this volume's. */
export async function holdDevice({ path, uuid, device }: ReportedVolume): Promise<HeldDevice> {
  const handle = await open(path, "r");
  const kernelPath = await pathOfHeld(handle, uuid, device).catch(() => undefined);
  if (kernelPath !== undefined)
    return {
      path: kernelPath,
      sizeBytes: async () => (await readDeviceNode(kernelPath))?.sizeBytes,
      close: () => handle.close(),
    };
  await handle.close();
  throw new LvmError("Failed", `${path} is not the device that LVM has as volume ${uuid}: nothing on it is touched`);
}

async function pathOfHeld(
  handle: FileHandle,
  uuid: string,
  device: ReportedVolume["device"],
): Promise<string | undefined> {
  const held = deviceNumber((await handle.stat({ bigint: true })).rdev);
  const isOf = (other: ReportedVolume["device"]): boolean => other?.major === held.major && other.minor === held.minor;
  if (!isOf(device) || !(await isDeviceOf(held, uuid))) return undefined;
  const kernelPath = await kernelPathOf(held);
  return kernelPath !== undefined && isOf((await readDeviceNode(kernelPath))?.device) ? kernelPath : undefined;
}

/** Returns why it did not come to its end, with nothing under way any more. What it has written, the caller syncs. */
export async function zeroCut(
  host: VolumeHost,
  held: HeldDevice,
  request: ReduceRequest,
  targetBytes: number,
  underWay: ReductionUnderWay,
): Promise<Refusal | Stop | undefined> {
  const { commands } = host;
  const { fromBytes } = request;
  for (let offset = targetBytes; offset < fromBytes; offset += PIECE_BYTES) {
    const changed = await refuseChanged(host, held, request, targetBytes);
    // Last: nothing comes between this look and the piece.
    const end = underWay.stopped() ?? changed;
    if (end !== undefined) return end;
    const length = Math.min(PIECE_BYTES, fromBytes - offset);
    await zeroPiece((...command) => commands.run("lvmd-reduce/zero", ...command), held.path, offset, length);
  }
  return undefined;
}

/** Nobody who keeps to the protocol lets it grow now; who does not is noticed here. */
async function refuseChanged(
  { commands }: VolumeHost,
  held: HeldDevice,
  { fromBytes, toBytes }: ReduceRequest,
  targetBytes: number,
): Promise<Refusal | undefined> {
  const sizeBytes = await held.sizeBytes();
  if (sizeBytes !== fromBytes)
    return new Refusal("ABORTED", `the volume has come to ${sizeBytes} bytes while its end was zeroed`);
  return refuseCut(await readSignature(commands, held.path, targetBytes), toBytes);
}
