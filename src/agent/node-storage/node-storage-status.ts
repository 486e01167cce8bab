// What a NodeStorage says: pure, from what was measured and heard. Sizes are whole mebibytes, rounded down: nobody is promised more than
// there is.
import { LOCAL_DRIVER, SPAN_DRIVER } from "../../api/names.ts";
import type { NodeStorageStatus } from "../../api/node-storage.ts";
import type { DeviceClass } from "../../gen/tidemark/lvmd/v1/lvmd.ts";
import type { CSINode } from "../../kube/resources.ts";
import { formatQuantity, MIB } from "../../units/quantity.ts";

export interface NodeStorageFacts {
  readonly loopFreeBytes: number;
  /** Undefined: the node has no lvmd, or it has not been heard yet. */
  readonly classes: readonly DeviceClass[] | undefined;
  readonly csiNode: CSINode | undefined;
  /** 0..1 of the busiest disk under the classes; undefined: nobody can tell. */
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
    ...(problem === "" ? {} : { problem: problem.slice(0, PROBLEM_LIMIT_CHARACTERS) }),
  };
}

/** How many are in use is told by VolumeAttachments, of which each agent would have to hear all of the cluster's. */
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
