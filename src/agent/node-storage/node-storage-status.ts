// What a NodeStorage says: pure, from what was measured and heard. Sizes are whole mebibytes, rounded down: the status never promises more
// than there is.

import type { DeviceClass } from "../../contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import type { NodeStorageStatus } from "../../contracts/kinds/node-storage.ts";
import type { CSINode } from "../../contracts/kubernetes/resources.ts";
import { LOCAL_DRIVER, SPAN_DRIVER } from "../../contracts/names.ts";
import { shortened } from "../../contracts/printable.ts";
import { formatQuantity, MIB } from "../../contracts/quantities/quantity.ts";

export interface NodeStorageFacts {
  readonly loopFreeBytes: number;
  /** Undefined: the node has no lvmd, or it has not been heard yet. */
  readonly classes: readonly DeviceClass[] | undefined;
  readonly csiNode: CSINode | undefined;
  /** 0..1 of the busiest disk under the classes; undefined: unknown. */
  readonly ioUtilizationRatio: number | undefined;
}

/** The entry of the backend loop: no class of lvmd can have its name. */
const LOOP_CLASS = "loop";
/** As the schema allows, with loop's. */
const CLASSES_LIMIT = 31;
const PROBLEM_LIMIT_CHARACTERS = 1024;
const UTILIZATION_STEP_PERCENT = 10;

export function nodeStorageStatus(facts: NodeStorageFacts): NodeStorageStatus {
  const { loopFreeBytes, classes = [], csiNode, ioUtilizationRatio } = facts;
  const lvm = classes.filter(({ name }) => name !== LOOP_CLASS).slice(0, CLASSES_LIMIT);
  const slots = attachSlots(csiNode);
  return {
    deviceClasses: [
      { name: LOOP_CLASS, backend: "loop", free: wholeMebibytes(loopFreeBytes) },
      ...lvm.map(deviceClassStatus),
    ],
    ...(slots.length === 0 ? {} : { attachSlots: slots }),
    ...(ioUtilizationRatio === undefined ? {} : { ioUtilization: inSteps(ioUtilizationRatio) }),
  };
}

type DeviceClassStatus = NonNullable<NodeStorageStatus["deviceClasses"]>[number];

function deviceClassStatus({
  name,
  isDefault,
  freeBytes,
  sizeBytes,
  thinPool,
  problem,
}: DeviceClass): DeviceClassStatus {
  return {
    name,
    backend: "lvm",
    free: wholeMebibytes(problem === "" ? freeBytes : 0),
    size: wholeMebibytes(sizeBytes),
    ...(isDefault ? { default: true } : {}),
    ...(thinPool === undefined || Number.isNaN(thinPool.dataPercent + thinPool.metadataPercent)
      ? {}
      : {
          thinPool: {
            dataPercent: wholePercent(thinPool.dataPercent),
            metadataPercent: wholePercent(thinPool.metadataPercent),
          },
        }),
    ...(problem === "" ? {} : { problem: shortened(problem, PROBLEM_LIMIT_CHARACTERS) }),
  };
}

/** Only the limits. How many slots are in use stands in VolumeAttachments; each agent would have to watch those of the whole cluster. */
function attachSlots(csiNode: CSINode | undefined): NonNullable<NodeStorageStatus["attachSlots"]> {
  return (csiNode?.spec.drivers ?? []).flatMap(({ name: driver, allocatable }) =>
    allocatable?.count === undefined || OWN_DRIVERS.includes(driver) ? [] : [{ driver, limit: allocatable.count }],
  );
}

const OWN_DRIVERS: readonly string[] = [LOCAL_DRIVER, SPAN_DRIVER];

function wholeMebibytes(bytes: number): string {
  return formatQuantity(Math.max(0, Math.floor(bytes / MIB)) * MIB);
}

function wholePercent(percent: number): number {
  return Math.min(100, Math.max(0, Math.ceil(percent)));
}

function inSteps(ratio: number): number {
  return Math.round((ratio * 100) / UTILIZATION_STEP_PERCENT) * UTILIZATION_STEP_PERCENT;
}
