// What a test makes the driver do, while it runs: one JSON file in the driver's directory that is read anew at every call. A
// field that does not exist is refused, so that a switch with a slip in its name cannot go unnoticed.
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import * as z from "zod";
import { GIB } from "../../src/contracts/quantities/quantity.ts";

export const RPCS = [
  ...["GetPluginInfo", "GetPluginCapabilities", "Probe"],
  ...["CreateVolume", "DeleteVolume", "ControllerPublishVolume", "ControllerUnpublishVolume"],
  ...["ValidateVolumeCapabilities", "ListVolumes", "GetCapacity", "ControllerGetCapabilities"],
  ...["ControllerExpandVolume", "ControllerGetVolume"],
  ...["NodeStageVolume", "NodeUnstageVolume", "NodePublishVolume", "NodeUnpublishVolume"],
  ...["NodeGetVolumeStats", "NodeExpandVolume", "NodeGetCapabilities", "NodeGetInfo"],
] as const;
export type RpcName = (typeof RPCS)[number];

const CODES = Object.keys(status).filter((name) => Number.isNaN(Number(name))) as (keyof typeof status)[];

/** Of several that match a call, the first applies. Each process counts `times` by itself, anew after every writing. */
const faultSchema = z.strictObject({
  rpc: z.enum(RPCS).optional(),
  /** A node's name, or "controller". */
  part: z.string().optional(),
  volumeId: z.string().optional(),
  times: z.int().positive().optional(),
  /** Before anything is done. */
  delayMs: z.int().positive().optional(),
  /** Answered instead of doing anything. */
  refuse: z.enum(CODES).optional(),
  /** The work is done; its caller waits to its deadline, or sees UNAVAILABLE as from a driver that died before it answered. */
  loseReply: z.enum(["unanswered", "cut"]).optional(),
});
export type Fault = z.infer<typeof faultSchema>;

const switchesSchema = z.strictObject({
  /** Of each writing another: what counts `times` begins anew. */
  written: z.string().default(""),
  faults: z.array(faultSchema).default([]),
  /** Of all volumes together. */
  capacityBytes: z
    .int()
    .nonnegative()
    .default(1024 * GIB),
  /** Kubelet hears of another number when the driver registers anew; ControllerPublishVolume refuses by it at once. */
  maxVolumesPerNode: z.int().positive().default(16),
  /** Until the device of a volume that grows slowly has what was asked for. */
  growthDelayMs: z.int().positive().default(90_000),
  /** False: a class that has filesystems only. */
  block: z.boolean().default(true),
  /** By what volumes are bound to nodes, read when a part starts. Nodes that `zones` does not name are in one zone together. */
  topology: z.enum(["none", "node", "zone"]).default("zone"),
  zones: z.record(z.string(), z.string()).default({}),
  /** Of each call that needs one, which secret it has to bring. */
  secrets: z.partialRecord(z.enum(RPCS), z.record(z.string(), z.string())).default({}),
});
export type Switches = z.infer<typeof switchesSchema>;

/** All that is not named goes back to its default. */
export function writeSwitches(directory: string, switches: Omit<z.input<typeof switchesSchema>, "written">): void {
  const path = switchesPath(directory);
  writeFileSync(`${path}.new`, JSON.stringify(switchesSchema.parse({ ...switches, written: randomUUID() })));
  renameSync(`${path}.new`, path);
}

export function readSwitches(directory: string): Switches {
  const path = switchesPath(directory);
  return switchesSchema.parse(existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : {});
}

function switchesPath(directory: string): string {
  return join(directory, "switches.json");
}
