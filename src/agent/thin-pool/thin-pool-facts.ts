// What lvmd reports of a device class, as a decision about its thin pool needs it. Pure.
import type { DeviceClass } from "../../gen/tidemark/lvmd/v1/lvmd.ts";
import type { ThinPoolFacts } from "./decide-thin-pool.ts";

/** Undefined: the class is thick, or nobody knows now what its pool is like. */
export function thinPoolFacts({ name, thinPool, sizeGrainBytes, problem }: DeviceClass): ThinPoolFacts | undefined {
  if (thinPool === undefined || problem !== "" || thinPool.sizeBytes <= 0) return undefined;
  const { sizeBytes, metadataSizeBytes, dataPercent, metadataPercent, groupFreeBytes } = thinPool;
  return {
    deviceClass: name,
    sizeBytes,
    metadataSizeBytes,
    dataUsedRatio: dataPercent / 100,
    metadataUsedRatio: metadataPercent / 100,
    groupFreeBytes,
    grainBytes: sizeGrainBytes,
  };
}
