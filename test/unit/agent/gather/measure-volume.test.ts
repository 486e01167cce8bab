import { describe, expect, it } from "@jest/globals";
import { recordWithLayout } from "../../../../src/agent/gather/layout-record.ts";
import { measureVolume } from "../../../../src/agent/gather/measure-volume.ts";
import { type FoundMember, type Storage, StorageError } from "../../../../src/agent/storage/storage.ts";
import { newVolumeState, type VolumeState, volumeOf } from "../../../../src/agent/volumes/volume-state.ts";
import { GIB } from "../../../../src/units/quantity.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { buildSpanLayout, buildSpanMember } from "../../../builders/span-layout.ts";

const span = recordWithLayout(buildSpanLayout({ members: [buildSpanMember("m0"), buildSpanMember("m1")] }), undefined);
const loop = recordWithLayout(buildLayout(), undefined);
const mountedState = (record: typeof span, change: Partial<VolumeState> = {}): VolumeState => ({
  ...newVolumeState(record, true),
  mounted: { ...volumeOf(record), device: "/dev/loop9", mountPath: "/mnt" },
  ...change,
});
const present = (name: string, sizeBytes: number | undefined): FoundMember => ({ name, state: "Present", sizeBytes });
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
    const state = mountedState(span);
    await measureVolume({ ...neverAsked, members: async () => [present("m0", GIB), present("m1", 2 * GIB)] }, state);
    expect(state).toMatchObject({ sizeBytes: 3 * GIB, record: { memberMade: true } });
  });

  it("says that a member's disk has vanished, and measures nothing then", async () => {
    const state = mountedState(span, { sizeBytes: 3 * GIB });
    const vanished = new StorageError("MembersMissing", "/m1/device leads to block device 8:16, which has vanished");
    const members = () => Promise.reject(vanished);
    await expect(measureVolume({ ...neverAsked, members }, state)).rejects.toBe(vanished);
    expect(state).toMatchObject({
      sizeBytes: 3 * GIB,
      problem: { reason: "MembersMissing", message: vanished.message },
    });
  });

  it("leaves the size to an operation that has begun while members were found in vain", async () => {
    const state = mountedState(loop, { sizeBytes: 3 * GIB });
    const members = async (): Promise<never> => {
      state.running = {} as VolumeState["running"];
      throw new StorageError("MembersMissing", "cut by hand");
    };
    await expect(measureVolume({ members, sizeBytes: async () => GIB }, state)).rejects.toThrow("cut by hand");
    expect(state.sizeBytes).toBe(3 * GIB);
  });

  it("counts nothing of a member that is out", async () => {
    const state = mountedState(span);
    await measureVolume(storageWith([present("m0", GIB), { name: "m1", state: "Removed", sizeBytes: GIB }]), state);
    expect(state.sizeBytes).toBe(GIB);
  });

  it("never takes a part for the whole: where one member's size is not known the filesystem is asked", async () => {
    const state = mountedState(span);
    await measureVolume(storageWith([present("m0", GIB), present("m1", undefined)], 3 * GIB), state);
    expect(state.sizeBytes).toBe(3 * GIB);
    await measureVolume(storageWith([present("m0", GIB), present("m1", undefined)]), state);
    expect(state.sizeBytes).toBeUndefined();
  });

  it.each([
    ["its members were found before", [present("m0", GIB)], GIB],
    ["they were not", [], undefined],
  ])("does not touch a span that does not answer, where %s", async (_when, members, sizeBytes) => {
    const state = mountedState(span, { hung: true, members, sizeBytes });
    await measureVolume(neverAsked, state);
    expect(state.sizeBytes).toBe(sizeBytes);
  });

  it("asks for the one member's size of any other volume, whether it answers or not", async () => {
    const state = mountedState(loop, { hung: true });
    await measureVolume(storageWith([], GIB), state);
    expect(state.sizeBytes).toBe(GIB);
  });

  it("forgets why a member could not be let go of once none is left", async () => {
    const leavingProblem = { reason: "MemberFailed", message: "the array is on fire" } as const;
    const state = mountedState(span, { leavingProblem });
    await measureVolume(storageWith([present("m0", GIB), { name: "m1", state: "Leaving" }]), state);
    expect(state.leavingProblem).toEqual(leavingProblem);
    await measureVolume(storageWith([present("m0", GIB), { name: "m1", state: "Removed" }]), state);
    expect(state.leavingProblem).toBeUndefined();
  });
});
