// What members of the backend lvm are made with: this node's lvmd, and the directory of their records. And how lvmd's errors read as
// storage's.
import { status } from "@grpc/grpc-js";
import type { DeviceClass } from "../../../gen/tidemark/lvmd/v1/lvmd.ts";
import type { Clock } from "../../../process/clock.ts";
import type { FilePort } from "../../../process/file-port.ts";
import type { DeviceClasses } from "../../lvmd-client/follow-classes.ts";
import type { LvmdCalls } from "../../lvmd-client/lvmd-calls.ts";
import { isUnanswered, LvmdError } from "../../lvmd-client/lvmd-error.ts";
import { type LvmMember, StorageError, type StorageErrorCode } from "../storage.ts";
import type { Tools } from "../tools.ts";
import type { PoolBytes } from "./unmounted-shrink/unmounted-shrink-decision.ts";

export interface LvmHost {
  readonly lvmd: LvmdCalls;
  readonly classes: DeviceClasses;
  /** Of lvmd's socket: gone with a reboot, as is whatever lvmd was at. */
  readonly socketDirectory: string;
  readonly recordDirectory: string;
  readonly tools: Tools;
  readonly files: FilePort;
  readonly clock: Clock;
  /** What snapshots of shrinks under way may take of their thin pools. */
  readonly guards: Set<PoolBytes & { readonly pool: string }>;
}

const CODES: Readonly<Partial<Record<status, StorageErrorCode>>> = {
  [status.RESOURCE_EXHAUSTED]: "DiskFull",
  [status.ABORTED]: "DeviceBusy",
};

/** Throws what lvmd answered as StorageError. */
export async function askLvmd<T>(volume: LvmMember, call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    if (!(error instanceof LvmdError)) throw error;
    const code = isUnanswered(error) ? "WaitingForMember" : (CODES[error.code] ?? "MemberDriverFailed");
    const remedy = code === "DiskFull" ? "free space in its volume group" : "see the log of lvmd on this node";
    throw new StorageError(code, `member ${nameOf(volume)} of ${volume.handle}: ${error.message}; ${remedy}`, error);
  }
}

export function nameOf({ deviceClass, volumeID }: LvmMember): string {
  return `${deviceClass}/${volumeID}`;
}

/** Throws WaitingForMember where the class cannot be used now: then nobody can tell what is in it, or what is not. */
export function requireClass({ classes }: LvmHost, volume: LvmMember): DeviceClass {
  const deviceClass = classes.get(volume.deviceClass);
  if (deviceClass !== undefined && deviceClass.problem === "") return deviceClass;
  const problem =
    classes.list() === undefined
      ? "lvmd of this node has not told its device classes yet"
      : (deviceClass?.problem ?? "lvmd of this node has no device class of this name; see its configuration");
  throw new StorageError(
    "WaitingForMember",
    `member ${nameOf(volume)} of ${volume.handle} is out of reach: ${problem}`,
  );
}
