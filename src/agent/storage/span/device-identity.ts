// Which device of which filesystem a member is, by its first superblock. Read by a program of its own: a device across a network
// may never answer, and must not take the agent along.
import type { BlockDevice } from "../../member-drivers/block-device.ts";
import { expectSuccess, type Tools } from "../tools.ts";

export interface DeviceIdentity {
  readonly devid: number;
  readonly deviceUUID: string;
  /** The commit that wrote it: all devices of a filesystem have the same, but one that was taken out. */
  readonly generation: number;
  /** Of the whole filesystem. */
  readonly deviceCount: number;
  /** False: the kernel has taken the device out of its filesystem, which leaves all but the magic number. */
  readonly valid: boolean;
}

const READ_LIMIT_MS = 20_000;
const FIELD = /^(magic|fsid|generation|num_devices|dev_item\.uuid|dev_item\.devid)\s+(.*)$/;

/** Undefined when the device carries nothing where the superblock is, or nothing of this filesystem. */
export async function identityWithin(
  tools: Tools,
  fsid: string,
  { path }: BlockDevice,
): Promise<DeviceIdentity | undefined> {
  // --force: also where the magic number is missing.
  const told = await tools.query("btrfs", ["inspect-internal", "dump-super", "--force", path], READ_LIMIT_MS);
  return parseSuperblock(expectSuccess(told, `reading the superblock of ${path}`), fsid);
}

/** Of another filesystem, or with a field missing: undefined. */
export function parseSuperblock(text: string, fsid: string): DeviceIdentity | undefined {
  const fields = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [, name, value] = FIELD.exec(line) ?? [];
    if (name !== undefined && value !== undefined) fields.set(name, value);
  }
  const deviceUUID = fields.get("dev_item.uuid");
  const [devid, generation, deviceCount] = ["dev_item.devid", "generation", "num_devices"].map((name) =>
    numberOf(fields.get(name)),
  );
  if (fields.get("fsid") !== fsid || deviceUUID === undefined) return undefined;
  if (devid === undefined || generation === undefined || deviceCount === undefined) return undefined;
  if (![devid, generation, deviceCount].every(Number.isSafeInteger)) return undefined;
  return { devid, deviceUUID, generation, deviceCount, valid: fields.get("magic")?.endsWith("[match]") === true };
}

function numberOf(text = ""): number {
  return /^\d+$/.test(text) ? Number(text) : Number.NaN;
}
