// The shrink of the simulated disk: the moves, the watch and the floor of a real one, over a number instead of a filesystem.
import { setTimeout as pause } from "node:timers/promises";
import { openReader } from "../filesystem/read-filesystem.ts";
import {
  cancelReason,
  nextShrinkMove,
  type SpaceSample,
  STEP_MAX_BYTES,
  stoppedMessage,
  stoppedShrink,
} from "../shrink-decision.ts";
import { BLOCK_GRAIN_BYTES } from "../size-grain.ts";
import type { MountedLoop, ShrinkControl, ShrinkResult } from "../storage.ts";
import { requireSimulatedMember, type SimulatedDisk, setSimulatedCapacity } from "./simulated-member.ts";

const STEP_MS = 200; // About what btrfs takes on a fast disk.
const WATCH_INTERVAL_MS = 50;

export async function shrinkSimulated(
  disk: SimulatedDisk,
  volume: MountedLoop,
  targetBytes: number,
  control: ShrinkControl,
): Promise<ShrinkResult> {
  const reader = openReader(volume);
  let sizeBytes = requireSimulatedMember(disk, volume).capacityBytes;
  while (!control.signal.aborted) {
    const { availableBytes, dataBytes: usedBytes } = reader.read();
    const facts = { sizeBytes, targetBytes, availableBytes, usedBytes, reserveBytes: control.reserveBytes() };
    const limits = {
      filesystemMinBytes: 0,
      stepMaxBytes: STEP_MAX_BYTES,
      grainBytes: BLOCK_GRAIN_BYTES,
      balancesDone: 0,
      room: undefined,
      immovable: undefined,
    };
    const move = nextShrinkMove({ ...facts, ...limits });
    if (move.kind === "reached") return { outcome: "Succeeded", sizeBytes };
    if (move.kind === "floor")
      return { outcome: "FloorReached", sizeBytes, floorBytes: move.floorBytes, usedBytes, message: move.message };
    const toBytes = move.kind === "resize" ? move.toBytes : sizeBytes;
    const reason = await watchStep(disk, volume, sizeBytes - toBytes, control);
    if (reason !== undefined) return { outcome: "Cancelled", sizeBytes, message: reason };
    await setSimulatedCapacity(disk, volume, toBytes);
    sizeBytes = toBytes;
    control.onStep(sizeBytes);
  }
  return stoppedShrink(sizeBytes, targetBytes, control.signal);
}

/** Why the step was cancelled. As on btrfs its bytes are out of the writers' reach from its beginning. */
async function watchStep(
  { clock }: SimulatedDisk,
  volume: MountedLoop,
  stepBytes: number,
  control: ShrinkControl,
): Promise<string | undefined> {
  const reader = openReader(volume);
  const samples: SpaceSample[] = [];
  const endMs = clock.monotonicMs() + STEP_MS;
  while (clock.monotonicMs() < endMs) {
    await pause(WATCH_INTERVAL_MS, undefined, { signal: control.signal }).catch(() => undefined);
    if (control.signal.aborted) return stoppedMessage(control.signal);
    const { availableBytes, dataBytes } = reader.read();
    samples.push({ atMs: clock.monotonicMs(), availableBytes: availableBytes - stepBytes, dataBytes });
    const reason = cancelReason(samples, control.reserveBytes());
    if (reason !== undefined) return reason;
  }
  return undefined;
}
