// Clears what is to be cut off a volume, while that is mounted. A thick one's end is overwritten with zeros, since LVM gives its extents to
// the next volume. A thin one's is discarded, since lvreduce would leave its blocks in the pool. It goes in pieces, since an extend waits
// for one; before each the filesystem is proved again to end in front of it.
import { type FileHandle, open } from "node:fs/promises";
import { Refusal } from "../../../contracts/csi/refusal.ts";
import { deviceNumber, discards, isDeviceOf, kernelPathOf, readDeviceNode } from "../../devices.ts";
import { LvmError } from "../../lvm/lvm-error.ts";
import type { ReportedVolume } from "../../lvm/report.ts";
import { discardPiece, zeroPiece } from "../remove-volume.ts";
import type { VolumeHost } from "../volume-host.ts";
import { readSignature } from "./read-signature.ts";
import { refusalOfCut } from "./reduce-decision.ts";
import type { ReduceRequest, ReductionUnderWay, Stop } from "./reductions.ts";

export type Clearing = "zero" | "discard";

/** An extend waits for one of them at most; nothing is written to discard one. */
const PIECE_BYTES: Readonly<Record<Clearing, number>> = { zero: 64 * 2 ** 20, discard: 1024 * 2 ** 20 };

export interface Cut {
  readonly request: ReduceRequest;
  /** Nothing of the filesystem is behind it. */
  readonly targetBytes: number;
  readonly underWay: ReductionUnderWay;
}

/** A device that no other volume can become while it is held: its name in LVM may change, the kernel's and its number do not. */
export interface HeldDevice {
  readonly path: string;
  /** Whether a discard reaches its pool. */
  readonly discards: boolean;
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
      discards: await discards(kernelPath),
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

/** Returns why it was stopped; throws a Refusal where it may not go on. Either way no work is left under way. */
export async function clearCut(
  host: VolumeHost,
  held: HeldDevice,
  clearing: Clearing,
  { request, targetBytes, underWay }: Cut,
): Promise<Stop | undefined> {
  const { fromBytes } = request;
  const pieceBytes = PIECE_BYTES[clearing];
  for (let offset = targetBytes; offset < fromBytes; offset += pieceBytes) {
    const changed = await refusalOfChange(host, held, request, targetBytes);
    // Last: nothing comes between this look and the piece. Where both are so, the stop is how it ends.
    const stop = underWay.stopped();
    if (stop !== undefined) return stop;
    if (changed !== undefined) throw changed;
    await clearPiece(host, clearing, held.path, offset, Math.min(pieceBytes, fromBytes - offset));
  }
  return undefined;
}

function clearPiece({ commands }: VolumeHost, clearing: Clearing, path: string, offset: number, length: number) {
  return clearing === "zero"
    ? zeroPiece((...command) => commands.run("lvmd-reduce/zero", ...command), path, offset, length)
    : discardPiece((...command) => commands.run("lvmd-reduce/discard", ...command), path, offset, length);
}

/** By the protocol no process lets it grow now; one that does is noticed here. */
async function refusalOfChange(
  { commands }: VolumeHost,
  held: HeldDevice,
  { fromBytes, toBytes }: ReduceRequest,
  targetBytes: number,
): Promise<Refusal | undefined> {
  const sizeBytes = await held.sizeBytes();
  if (sizeBytes !== fromBytes)
    return new Refusal("ABORTED", `the volume has come to ${sizeBytes} bytes while its end was cleared`);
  return refusalOfCut(await readSignature(commands, held.path, targetBytes), toBytes);
}
