// Makes a class' thin pool larger: its metadata first, since a pool that runs out of those stops for good. The class' spare stays.
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import type { ClassState } from "../classes/class-state.ts";
import { roundUp } from "../classes/room.ts";
import type { ReportedVolume } from "../lvm/report.ts";
import type { DeviceClass } from "../settings/settings.ts";
import { refuseShortage } from "./sizes.ts";
import { classOf, freshStateOf, type VolumeHost } from "./volume-host.ts";

export interface PoolSizes {
  /** 0: as it is. */
  readonly sizeBytes: number;
  /** 0: as they are. */
  readonly metadataSizeBytes: number;
}

/** The sizes now; never less than they were. */
export async function extendThinPool(
  host: VolumeHost,
  className: string,
  wanted: PoolSizes,
): Promise<PoolSizes | Refusal> {
  const deviceClass = classOf(host, className);
  if (deviceClass instanceof Refusal) return deviceClass;
  const { thinPool } = deviceClass;
  if (thinPool === undefined) return invalidArgument(`device class ${deviceClass.name} is thick: it has no pool`);
  for (const bytes of [wanted.sizeBytes, wanted.metadataSizeBytes])
    if (bytes < 0) return invalidArgument(`a size of ${bytes} bytes cannot be`);
  return host.lanes.run(deviceClass.volumeGroup, () => extendInTurn(host, deviceClass, wanted));
}

async function extendInTurn(
  host: VolumeHost,
  deviceClass: DeviceClass,
  wanted: PoolSizes,
): Promise<PoolSizes | Refusal> {
  const state = await freshStateOf(host, deviceClass);
  if (state instanceof Refusal) return state;
  if (state.thin === undefined) return invalidArgument(`device class ${deviceClass.name} is thick: it has no pool`);
  const { pool } = state.thin;
  const { extentBytes } = state.group;
  const sizeBytes = Math.max(pool.sizeBytes, roundUp(wanted.sizeBytes, extentBytes * pool.dataColumns));
  const metadataSizeBytes = Math.max(pool.metadataSizeBytes, roundUp(wanted.metadataSizeBytes, extentBytes));
  const refusal = refusePoolShortage(state, pool, { sizeBytes, metadataSizeBytes });
  if (refusal !== undefined) return refusal;
  const target = `${state.group.name}/${pool.name}`;
  if (metadataSizeBytes > pool.metadataSizeBytes)
    await host.lvm.run("lvmd-pool/extend-metadata", "lvextend", [
      "--poolmetadatasize",
      `${metadataSizeBytes}b`,
      target,
    ]);
  if (sizeBytes > pool.sizeBytes)
    await host.lvm.run("lvmd-pool/extend-data", "lvextend", ["-L", `${sizeBytes}b`, target]);
  const now = await freshStateOf(host, deviceClass);
  if (now instanceof Refusal) return now;
  return now.thin?.pool ?? { sizeBytes, metadataSizeBytes };
}

function refusePoolShortage(state: ClassState, pool: ReportedVolume, target: PoolSizes): Refusal | undefined {
  const { group, deviceClass } = state;
  // LVM keeps a second copy of the metadata's place, to repair them in.
  const neededBytes = target.sizeBytes - pool.sizeBytes + 2 * (target.metadataSizeBytes - pool.metadataSizeBytes);
  return refuseShortage(
    state,
    neededBytes,
    Math.max(0, neededBytes === 0 ? 0 : group.freeBytes - deviceClass.spareBytes),
  );
}
