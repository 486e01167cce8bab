// What a volume's records say of its logical volume: what LVM calls it, and the device class that it is of. Pure.
import { isUUID } from "../../api/identity.ts";
import { RECORDS } from "../../api/names.ts";

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
