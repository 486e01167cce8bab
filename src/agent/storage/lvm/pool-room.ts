// What the thin pool under a volume can still take, as lvmd last reported it, less what snapshots of running shrinks may take.
import type { MemberRoom } from "../decide-shrink.ts";
import type { LvmMember } from "../storage.ts";
import { DATA_BYTES_PER_METADATA_BYTE, METADATA_SLACK_BYTES, type PoolRoom } from "./decide-unmounted-shrink.ts";
import type { PoolBytes } from "./lvm-host.ts";
import { type LvmHost, requireClass } from "./lvm-host.ts";

/** lvmd reports what is used of a pool in whole percents. */
const PERCENT_SLACK = 1;
/** dm-thin commits each second, lvmd looks twice a second, and reports a change once it has been quiet for a moment, or after two seconds. */
const REPORT_LAG_MS = 5000;

export function poolRoom(host: LvmHost, volume: LvmMember): PoolRoom {
  const { thinPool, spareBytes } = requireClass(host, volume);
  if (thinPool === undefined) return { dataBytes: 0, metadataBytes: 0, spareBytes };
  const left = (sizeBytes: number, percent: number, takenBytes: number): number => {
    const leftBytes = Math.floor((sizeBytes * (100 - percent - PERCENT_SLACK)) / 100) - takenBytes;
    return leftBytes > 0 ? leftBytes : 0;
  };
  const name = poolNameOf(host, volume);
  const others = [...host.guards].filter(({ pool }) => pool === name);
  const taken = (of: keyof PoolBytes): number => others.reduce((sum, guard) => sum + guard[of], 0);
  return {
    dataBytes: left(thinPool.sizeBytes, thinPool.dataPercent, taken("dataBytes")),
    metadataBytes: left(thinPool.metadataSizeBytes, thinPool.metadataPercent, taken("metadataBytes")),
    spareBytes,
  };
}

/** Several classes may be of one pool. */
export function poolNameOf(host: LvmHost, volume: LvmMember): string {
  const { volumeGroup, thinPool } = requireClass(host, volume);
  return `${volumeGroup}/${thinPool?.name ?? ""}`;
}

/** Undefined: a thick volume has all of its bytes. Which of a thin one's are mapped is not known here. Throws WaitingForMember. */
export function roomOfPool(host: LvmHost, volume: LvmMember, sizeBytes: number): MemberRoom | undefined {
  if (requireClass(host, volume).thinPool === undefined) return undefined;
  const { dataBytes, metadataBytes, spareBytes } = poolRoom(host, volume);
  const mappableBytes = (metadataBytes - METADATA_SLACK_BYTES) * DATA_BYTES_PER_METADATA_BYTE;
  const freeBytes = Math.max(0, Math.min(dataBytes - spareBytes, mappableBytes));
  return { place: `thin pool ${poolNameOf(host, volume)}`, freeBytes, holeBytes: sizeBytes, lagMs: REPORT_LAG_MS };
}
