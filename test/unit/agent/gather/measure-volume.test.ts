import { describe, expect, it } from "@jest/globals";
import { recordWithLayout } from "../../../../src/agent/gather/layout-record.ts";
import { measureVolume } from "../../../../src/agent/gather/measure-volume.ts";
import type { FoundMember, Storage } from "../../../../src/agent/storage/storage.ts";
import { StorageError } from "../../../../src/agent/storage/storage-error.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { buildRunning, buildVolume } from "../../../builders/node-volume.ts";
import { buildSpanLayout, buildSpanMember } from "../../../builders/span-layout.ts";

const span = recordWithLayout(buildSpanLayout({ members: [buildSpanMember("m0"), buildSpanMember("m1")] }), undefined);
const loop = recordWithLayout(buildLayout(), undefined);
const unmeasured = (name: string): FoundMember => ({ name, state: "Present" });
const present = (name: string, sizeBytes: number): FoundMember => ({ ...unmeasured(name), sizeBytes });
const storageWith = (members: FoundMember[], sizeBytes?: number): Pick<Storage, "members" | "sizeBytes"> => ({
  members: async () => members,
  sizeBytes: async () => sizeBytes,
});
const neverAsked: Pick<Storage, "members" | "sizeBytes"> = {
  members: () => Promise.reject(new Error("its members were asked for")),
  sizeBytes: () => Promise.reject(new Error("its size was asked for")),
};

describe("measuring a volume", () => {
  it("adds the sizes of several members up, and asks nothing more", async () => {
    const volume = buildVolume(span);
    await measureVolume({ ...neverAsked, members: async () => [present("m0", GIB), present("m1", 2 * GIB)] }, volume);
    expect(volume.state).toMatchObject({ sizeBytes: 3 * GIB, record: { memberMade: true } });
  });

  it("says that a member's disk has vanished, and measures nothing then", async () => {
    const volume = buildVolume(span, { sizeBytes: 3 * GIB });
    const vanished = new StorageError("MembersMissing", "/m1/device leads to block device 8:16, which has vanished");
    const members = () => Promise.reject(vanished);
    await expect(measureVolume({ ...neverAsked, members }, volume)).rejects.toBe(vanished);
    expect(volume.state).toMatchObject({
      sizeBytes: 3 * GIB,
      problem: { reason: "MembersMissing", message: vanished.message },
    });
  });

  it("leaves the size to an operation that has begun while members were found in vain", async () => {
    const volume = buildVolume(loop, { sizeBytes: 3 * GIB });
    const members = async (): Promise<never> => {
      volume.dispatch({ type: "OperationStarted", operation: buildRunning("Extend").operation, startedMs: 0 });
      throw new StorageError("MembersMissing", "cut by hand");
    };
    await expect(measureVolume({ members, sizeBytes: async () => GIB }, volume)).rejects.toThrow("cut by hand");
    expect(volume.state.sizeBytes).toBe(3 * GIB);
  });

  it("counts nothing of a member that is out", async () => {
    const volume = buildVolume(span);
    await measureVolume(storageWith([present("m0", GIB), { name: "m1", state: "Removed", sizeBytes: GIB }]), volume);
    expect(volume.state.sizeBytes).toBe(GIB);
  });

  it("never takes a part for the whole: where one member's size is not known the filesystem is asked", async () => {
    const volume = buildVolume(span);
    await measureVolume(storageWith([present("m0", GIB), unmeasured("m1")], 3 * GIB), volume);
    expect(volume.state.sizeBytes).toBe(3 * GIB);
    await measureVolume(storageWith([present("m0", GIB), unmeasured("m1")]), volume);
    expect(volume.state.sizeBytes).toBeUndefined();
  });

  it.each([
    ["its members were found before", [present("m0", GIB)], GIB],
    ["they were not", [], undefined],
  ])("does not touch a span that does not answer, where %s", async (_when, members, sizeBytes) => {
    const volume = buildVolume(span, { hung: true, members, sizeBytes });
    await measureVolume(neverAsked, volume);
    expect(volume.state.sizeBytes).toBe(sizeBytes);
  });

  it("asks for the one member's size of any other volume, whether it answers or not", async () => {
    const volume = buildVolume(loop, { hung: true });
    await measureVolume(storageWith([], GIB), volume);
    expect(volume.state.sizeBytes).toBe(GIB);
  });

  it("forgets why a member could not be let go of once none is left", async () => {
    const leavingProblem = { reason: "MemberFailed", message: "the array is on fire" } as const;
    const volume = buildVolume(span, { leavingProblem });
    await measureVolume(storageWith([present("m0", GIB), { name: "m1", state: "Leaving" }]), volume);
    expect(volume.state.leavingProblem).toEqual(leavingProblem);
    await measureVolume(storageWith([present("m0", GIB), { name: "m1", state: "Removed" }]), volume);
    expect(volume.state.leavingProblem).toBeUndefined();
  });
});
