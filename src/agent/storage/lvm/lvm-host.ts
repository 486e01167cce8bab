// What members of the backend lvm are made with: this node's lvmd, and the directory of their records. And how lvmd's errors read as
// storage's.
import { status } from "@grpc/grpc-js";
import type { DeviceClass } from "../../../contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import type { Clock } from "../../../platform/process/clock.ts";
import type { FilePort } from "../../../platform/process/effects/file-port.ts";
import { type DeviceClasses, isUnanswered, type LvmdCalls, LvmdError } from "../../lvmd-client/lvmd-calls.ts";
import type { LvmMember } from "../storage.ts";
import { StorageError, type StorageErrorCode } from "../storage-error.ts";
import type { Tools } from "../tools.ts";

/** Of a thin pool. */
export interface PoolBytes {
  readonly dataBytes: number;
  readonly metadataBytes: number;
}

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

/** Throws WaitingForMember where the class cannot be used now: what it holds is then unknown. */
export function requireClass({ classes }: LvmHost, volume: LvmMember): DeviceClass {
  const deviceClass = classes.get(volume.deviceClass);
  if (deviceClass !== undefined && deviceClass.problem === "") return deviceClass;
  const problem =
    classes.list() === undefined
      ? "lvmd on this node has not reported its device classes yet"
      : (deviceClass?.problem ?? "lvmd of this node has no device class of this name; see its configuration");
  throw new StorageError(
    "WaitingForMember",
    `member ${nameOf(volume)} of ${volume.handle} is out of reach: ${problem}`,
  );
}
