import { describe, expect, it } from "@jest/globals";
import { type NodeStorageFacts, nodeStorageStatus } from "../../../../src/agent/node-storage/node-storage-status.ts";
import type { CSINode } from "../../../../src/contracts/kubernetes/resources.ts";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { makeDeviceClass, THIN_POOL } from "../../../builders/device-class.ts";

const NOTHING: NodeStorageFacts = {
  loopFreeBytes: GIB,
  classes: undefined,
  csiNode: undefined,
  ioUtilizationRatio: undefined,
};

function classesOf(...classes: Parameters<typeof makeDeviceClass>[0][]) {
  return nodeStorageStatus({ ...NOTHING, classes: classes.map(makeDeviceClass) }).deviceClasses?.slice(1);
}

describe("a NodeStorage's status", () => {
  it("is of the node's own disk alone where there is no lvmd", () => {
    expect(nodeStorageStatus(NOTHING)).toEqual({ deviceClasses: [{ name: "loop", backend: "loop", free: "1Gi" }] });
  });

  it("has every class of lvmd, in whole mebibytes and never more than there is", () => {
    expect(
      classesOf({ name: "fast", isDefault: true, freeBytes: 5 * GIB - 1 }, { name: "slow", freeBytes: -1 }),
    ).toEqual([
      { name: "fast", backend: "lvm", default: true, free: "5119Mi", size: "64Gi" },
      { name: "slow", backend: "lvm", free: "0", size: "64Gi" },
    ]);
  });

  it("has a thin pool's percentages, rounded up", () => {
    expect(classesOf({ thinPool: { ...THIN_POOL, dataPercent: 99.01, metadataPercent: 0 } })).toMatchObject([
      { thinPool: { dataPercent: 100, metadataPercent: 0 } },
    ]);
  });

  it("has no percentages where nobody can tell them", () => {
    const [told] =
      classesOf({ thinPool: { ...THIN_POOL, dataPercent: Number.NaN }, problem: "it is not active" }) ?? [];
    expect(told).toMatchObject({ free: "0", problem: "it is not active" });
    expect(told).not.toHaveProperty("thinPool");
  });

  it("promises nothing of a class that has a problem, and says which", () => {
    expect(classesOf({ problem: "its volume group is gone" })).toMatchObject([
      { free: "0", problem: "its volume group is gone" },
    ]);
  });

  it("keeps what the schema takes: no second class called loop, and no more than it has place for", () => {
    const many = Array.from({ length: 40 }, (_, index) => ({ name: `class-${index}` }));
    expect(classesOf({ name: "loop" }, ...many)?.map(({ name }) => name)).toEqual(
      many.slice(0, 31).map(({ name }) => name),
    );
  });

  it("has the limits of other drivers, of those that have one", () => {
    const driver = (name: string, count: number | undefined) => ({ name, nodeID: "node-1", allocatable: { count } });
    const csiNode = {
      spec: {
        drivers: [driver("disks.example", 25), driver("files.example", undefined), driver("local.tidemark.dev", 3)],
      },
    } as CSINode;
    expect(nodeStorageStatus({ ...NOTHING, csiNode }).attachSlots).toEqual([{ driver: "disks.example", limit: 25 }]);
  });

  it.each([
    [0.04, 0],
    [0.05, 10],
    [0.94, 90],
    [1, 100],
  ])("says a utilization of %d in steps: %d%%", (ioUtilizationRatio, expected) => {
    expect(nodeStorageStatus({ ...NOTHING, ioUtilizationRatio }).ioUtilization).toBe(expected);
  });

  it("counts whole mebibytes only", () => {
    expect(nodeStorageStatus({ ...NOTHING, loopFreeBytes: 5 * MIB + 1 }).deviceClasses?.[0]?.free).toBe("5Mi");
  });
});
