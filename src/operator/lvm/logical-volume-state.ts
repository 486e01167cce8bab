// What a LogicalVolume says when its fields are read together, and what a volume's records say of it. Pure.

import { isUUID } from "../../contracts/identity.ts";
import type { LogicalVolume } from "../../contracts/kinds/logical-volume.ts";
import { RECORDS } from "../../contracts/names.ts";
import { parseQuantity } from "../../contracts/quantities/quantity.ts";

/** The gRPC codes of lvmd after which an agent does not try again: what is asked for cannot be had there. */
const FINAL_CODES = {
  INVALID_ARGUMENT: 3,
  NOT_FOUND: 5,
  RESOURCE_EXHAUSTED: 8,
  OUT_OF_RANGE: 11,
  UNIMPLEMENTED: 12,
} as const;
export type FinalCode = keyof typeof FINAL_CODES;

/** What LVM calls it; undefined: it is not made yet. */
export function madeVolume({ spec, status }: LogicalVolume): LogicalVolumeRecord | undefined {
  const volumeID = status?.volumeID ?? spec.volumeID;
  return volumeID === undefined ? undefined : { volumeID, deviceClass: spec.deviceClass };
}

/** Why it will not be made; undefined: it is, or it is still tried. What was said of an earlier specification does not count. */
export function finalFailure({ metadata, spec, status }: LogicalVolume): FinalCode | undefined {
  if (status === undefined || status.volumeID !== undefined || spec.volumeID !== undefined) return undefined;
  if (status.observedGeneration !== undefined && status.observedGeneration !== metadata.generation) return undefined;
  return (Object.keys(FINAL_CODES) as FinalCode[]).find((name) => FINAL_CODES[name] === status.code);
}

/** What it has; before it is made, what is asked for. */
export function currentBytes({ spec, status }: LogicalVolume): number {
  return parseQuantity(status?.currentSize ?? spec.size);
}

/** What LVM calls it, and the device class that it is of. */
export interface LogicalVolumeRecord {
  readonly volumeID: string;
  readonly deviceClass: string;
}

export function recordsOfLogicalVolume(record: LogicalVolumeRecord | undefined): Record<string, string> {
  if (record === undefined) return {};
  return { [RECORDS.logicalVolume]: record.volumeID, [RECORDS.deviceClass]: record.deviceClass };
}

/** The inverse. Undefined: there are none, or not all, or a name that we never give. */
export function logicalVolumeOfRecords(records: Readonly<Record<string, string>>): LogicalVolumeRecord | undefined {
  const { [RECORDS.logicalVolume]: volumeID, [RECORDS.deviceClass]: deviceClass } = records;
  return volumeID && isUUID(volumeID) && deviceClass ? { volumeID, deviceClass } : undefined;
}
