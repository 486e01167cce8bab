import { describe, expect, it } from "@jest/globals";
import { decideOperation } from "../../../../src/agent/decide/decide-operation.ts";
import { LayoutError, recordWithLayout } from "../../../../src/agent/gather/layout-record.ts";
import { canMount, nextLookMs, spanMemberFactsOf } from "../../../../src/agent/gather/operation-facts.ts";
import { layoutStatus } from "../../../../src/agent/report/layout-status.ts";
import type { FoundMember } from "../../../../src/agent/storage/storage.ts";
import type { NodeRecord } from "../../../../src/agent/volumes/node-records.ts";
import { withSparesTaken } from "../../../../src/agent/volumes/volume-events.ts";
import { newVolumeState, volumeOf } from "../../../../src/agent/volumes/volume-state.ts";
import type {
  FilesystemLayout,
  FilesystemLayoutStatus,
  MemberSpec,
  Operation,
} from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { buildVolumeState, type VolumeChange } from "../../../builders/node-volume.ts";
import { buildSpanLayout, buildSpanMember } from "../../../builders/span-layout.ts";

const ON_ITS_WAY = { attachment: undefined };
const UNBOUND = { driver: undefined, volumeHandle: undefined, attachment: undefined };
const LEAVING = { state: "Removed" } as const;
const SPARE = { state: "Spare" } as const;
const COMING = { ...SPARE, size: "2Gi", replaces: { member: "m0", decidedAt: "2030-01-01T00:00:00.000Z" } };

function membersOf(record: NodeRecord) {
  if (record.backend !== "span") throw new Error("not a span");
  return record.members;
}

describe("reading the layout of a span", () => {
  it("gives what a driver is called with, and keeps no secret but its name", () => {
    const nodeStageSecretRef = { namespace: "storage", name: "array" };
    const layout = buildSpanLayout({ members: [buildSpanMember("m0", { nodeStageSecretRef })] });
    expect(recordWithLayout(layout, undefined)).toMatchObject({
      backend: "span",
      memberMade: false,
      members: [
        {
          name: "m0",
          claim: "claim-m0",
          wanted: "Present",
          wasInside: false,
          sizeBytes: GIB,
          capacityBytes: GIB,
          volume: { driver: "members.example.com", volumeHandle: "volume-m0", nodeStageSecretRef },
          attachment: { context: { lun: "7" } },
        },
      ],
    });
  });

  it("knows what a member's device carried when it was looked at last, and whether the spec says so, too", () => {
    const members = [buildSpanMember("m0"), buildSpanMember("m1", {}, { ...LEAVING, refused: "ext4" })];
    const refused = ["m0", "m1"].map((name) => ({ name, message: "ext4" }));
    const [first, second] = membersOf(recordWithLayout(buildSpanLayout({ members }, { refused }), undefined));
    expect(first).toMatchObject({ carried: "ext4" });
    expect(first).not.toHaveProperty("refused");
    expect(second).toMatchObject({ carried: "ext4", refused: true });
  });

  it.each<[string, Parameters<typeof buildSpanMember>[1]]>([
    ["nobody has attached", { attachment: undefined }],
    ["is attached to another node", { attachment: { nodeName: "node-b" } }],
  ])("does not call a member attached that %s", (_what, claim) => {
    const layout = buildSpanLayout({ members: [buildSpanMember("m0", claim)] });
    expect(membersOf(recordWithLayout(layout, undefined))[0]).not.toHaveProperty("attachment");
  });

  it.each(["../m0", "M0", "m/0", "", ".", "m0\0"])(
    "refuses the member name %j, which would become a directory",
    (name) => {
      const layout = buildSpanLayout({ members: [buildSpanMember(name)] });
      expect(() => recordWithLayout(layout, undefined)).toThrow(LayoutError);
    },
  );

  it("knows which device a member is and which volume, as was reported last, and forgets neither for a rebuilt layout", () => {
    const members = [buildSpanMember("m0", { persistentVolumeUID: "uid-of-pv" })];
    const said = { name: "m0", size: "1Gi", state: "Present", devid: 2, deviceUUID: "uuid-m0" } as const;
    const record = recordWithLayout(buildSpanLayout({ members }, { members: [said] }), undefined);
    const known = { reported: { devid: 2, deviceUUID: "uuid-m0" }, persistentVolumeUID: "uid-of-pv" };
    expect(membersOf(record)[0]).toMatchObject(known);
    const rebuilt = buildSpanLayout({ members: [buildSpanMember("m0", {}, { size: undefined })] });
    expect(membersOf(recordWithLayout(rebuilt, record))[0]).toMatchObject(known);
    // It was taken out since, by whatever hand.
    const others = { members: [{ ...said, name: "m1" }] };
    expect(membersOf(recordWithLayout(buildSpanLayout({ members }, others), record))[0]).not.toHaveProperty("reported");
  });

  it("does not let a layout change which volume a member is", () => {
    const kept = recordWithLayout(buildSpanLayout(), undefined);
    const other = buildSpanLayout({ members: [buildSpanMember("m0", { volumeHandle: "somebody-else's" })] });
    expect(membersOf(recordWithLayout(other, kept))[0]?.volume?.volumeHandle).toBe("volume-m0");
  });

  it("keeps a member that a layout has lost while it may be mounted, and only then", () => {
    const both = buildSpanLayout({ members: [buildSpanMember("m0"), buildSpanMember("m1")] });
    const record = recordWithLayout(both, undefined);
    const names = (kept: NodeRecord) => membersOf(recordWithLayout(buildSpanLayout(), kept)).map(({ name }) => name);
    expect(names({ ...record, stagingPath: "/staged" })).toEqual(["m0", "m1"]);
    expect(names(record)).toEqual(["m0"]);
  });

  it("keeps a spare beside the filesystem until an emergency has taken it, which no layout takes back", () => {
    const layout = buildSpanLayout({ members: [buildSpanMember("m0"), buildSpanMember("m1", {}, SPARE)] });
    const record = recordWithLayout(layout, undefined);
    const wanted = (one: NodeRecord) => membersOf(one).map((member) => member.wanted);
    expect(wanted(record)).toEqual(["Present", "Spare"]);
    const taken = withSparesTaken(record, ["m1"]);
    expect(wanted(taken)).toEqual(["Present", "Present"]);
    expect(wanted(recordWithLayout(layout, taken))).toEqual(["Present", "Present"]);
    // Another node has told of it.
    const members: FilesystemLayoutStatus["members"] = [{ name: "m1", size: "1Gi", state: "Present" }];
    expect(wanted(recordWithLayout({ ...layout, status: { members } }, undefined))).toEqual(["Present", "Present"]);
    // A rebuilt layout has named it among the members before it was known to be a spare.
    const rebuilt = recordWithLayout(
      buildSpanLayout({ members: [buildSpanMember("m0"), buildSpanMember("m1")] }),
      undefined,
    );
    expect(wanted(recordWithLayout(layout, rebuilt))).toEqual(["Present", "Spare"]);
  });

  describe("has a spare beside the filesystem again that an emergency has taken", () => {
    const spare = (change: Partial<MemberSpec> = {}, status?: FilesystemLayoutStatus): FilesystemLayout =>
      buildSpanLayout({ members: [buildSpanMember("m0"), buildSpanMember("m1", {}, { ...SPARE, ...change })] }, status);
    const marked = { refused: "ext4" };
    const says = (message: string): FilesystemLayoutStatus => ({ refused: [{ name: "m1", message }] });
    const wantedAfter = (...layouts: FilesystemLayout[]) => {
      const [first = spare(), ...later] = layouts;
      const taken = withSparesTaken(recordWithLayout(first, undefined), ["m1"]);
      return membersOf(later.reduce((record, layout) => recordWithLayout(layout, record), taken)).map(
        ({ wanted, taken: isTaken = false }) => `${wanted} ${isTaken}`,
      )[1];
    };

    it.each<[string, FilesystemLayout[]]>([
      ["its layout names it as refused since", [spare(), spare({}, says("ext4")), spare(marked, says("ext4"))]],
      [
        "its layout names it so, and its node says no more of it",
        [spare(), spare(marked, says("ext4")), spare(marked)],
      ],
      ["it was wiped before, and carries something again", [spare(marked), spare(marked, says("swap"))]],
      ["that carries something else than before", [spare(marked, says("ext4")), spare(marked, says("swap"))]],
    ])("where %s", (_where, layouts) => {
      expect(wantedAfter(...layouts)).toBe("Spare false");
    });

    it.each<[string, FilesystemLayout[]]>([
      ["its node alone says that it carries something", [spare(), spare({}, says("ext4"))]],
      ["its layout has named it as refused before", [spare(marked, says("ext4")), spare(marked, says("ext4"))]],
      ["what was said of it before is taken back", [spare(marked, says("ext4")), spare(marked)]],
      [
        "it is in the filesystem",
        [spare(), spare(marked, { ...says("ext4"), members: [{ name: "m1", size: "1Gi", state: "Present" }] })],
      ],
    ])("but not where %s", (_where, layouts) => {
      expect(wantedAfter(...layouts)).toBe("Present true");
    });

    it("and looks at it again", () => {
      const taken = withSparesTaken(recordWithLayout(spare(), undefined), ["m1"]);
      const record = recordWithLayout(spare(marked, says("ext4")), taken);
      const members: FoundMember[] = [present("m0"), { name: "m1", state: "Refused", why: "ext4", lookedMs: 0 }];
      const state = buildVolumeState(record, { sizeBytes: GIB, members });
      expect(spanMemberFactsOf(state, 30_000)).toMatchObject({ spareToPrepare: true });
      expect(nextLookMs(state, 10_000)).toBe(20_000);
    });
  });

  it("leaves beside the filesystem what an emergency has not taken", () => {
    const members = [m0, buildSpanMember("m1", {}, SPARE), buildSpanMember("m2", {}, SPARE)];
    const taken = withSparesTaken(recordWithLayout(buildSpanLayout({ members }), undefined), ["m2"]);
    expect(membersOf(taken).map(({ wanted }) => wanted)).toEqual(["Present", "Spare", "Present"]);
  });

  it("forgets a member that was let go of and has left the layout", () => {
    const both = buildSpanLayout({ members: [buildSpanMember("m0"), buildSpanMember("m1", {}, LEAVING)] });
    const staged = { ...recordWithLayout(both, undefined), stagingPath: "/staged" };
    expect(membersOf(recordWithLayout(buildSpanLayout(), staged)).map(({ name }) => name)).toEqual(["m0"]);
  });

  it.each<[string, FilesystemLayout]>([
    [
      "another node's agent has seen it",
      buildSpanLayout({}, { members: [{ name: "m0", size: "1Gi", state: "Present" }] }),
    ],
    ["it is a rebuilt one", buildSpanLayout({ members: [buildSpanMember("m0", {}, { size: undefined })] })],
  ])("knows that the filesystem was made where %s, so that it is never made again", (_why, layout) => {
    const record = recordWithLayout(layout, undefined);
    expect(volumeOf(record)).toMatchObject({ formatted: true });
  });
});

it("does not take a volume for formatted that is only about to be staged", () => {
  const record = recordWithLayout(buildSpanLayout({}, { mounted: true, nodeName: "node-a" }), undefined);
  expect(volumeOf(record)).toMatchObject({ formatted: false });
});

describe("the members without which a span is not mounted", () => {
  const attached = buildSpanMember("m0");
  const onItsWay = (name: string, change: Partial<MemberSpec> = {}) => buildSpanMember(name, ON_ITS_WAY, change);
  const wasIn = (...names: string[]): FilesystemLayoutStatus => ({
    members: names.map((name) => ({ name, size: "1Gi", state: "Present" })),
  });
  it.each<[string, boolean, MemberSpec[], FilesystemLayoutStatus | undefined]>([
    ["its first one, where it was never made", true, [attached, buildSpanMember("m1", UNBOUND)], undefined],
    ["each that may hold it, where nobody knows that it was made", false, [attached, onItsWay("m1")], undefined],
    ["its first one, and not another", false, [onItsWay("m0"), buildSpanMember("m1")], undefined],
    ["those that it was made of, and not one that shall make it larger", true, [attached, onItsWay("m1")], wasIn("m0")],
    ["all that it was made of", false, [attached, onItsWay("m1")], wasIn("m0", "m1")],
    ["one that shall leave as long as it has not", false, [attached, onItsWay("m1", LEAVING)], wasIn("m0", "m1")],
    ["all, where its layout is a rebuilt one", false, [attached, onItsWay("m1", { size: undefined })], undefined],
    ["some, where its layout has lost them all", false, [], undefined],
  ])("are %s", (_which, isEnough, members, status) => {
    expect(canMount(recordWithLayout(buildSpanLayout({ members }, status), undefined))).toBe(isEnough);
  });

  it("do not count one that has been given back", () => {
    const members = [attached, onItsWay("m1", LEAVING)];
    const status: FilesystemLayoutStatus = {
      members: [...(wasIn("m0").members ?? []), { name: "m1", size: "1Gi", state: "Removed" }],
    };
    const record = recordWithLayout(buildSpanLayout({ members }, status), undefined);
    expect(membersOf(record).map(({ name }) => name)).toEqual(["m0"]);
    expect(canMount(record)).toBe(true);
  });
});

/** Mounted; its members by what the layout says of them, and what was found. */
function mountedSpan(members: MemberSpec[], found: FoundMember[], status?: FilesystemLayoutStatus) {
  const live = buildSpanLayout({ members }, status);
  const record = recordWithLayout(live, undefined);
  const inside = found.filter(({ state }) => state !== "Spare");
  const sizeBytes = inside.reduce((sum, member) => sum + (member.sizeBytes ?? 0), 0);
  const state = buildVolumeState(record, { sizeBytes, members: found });
  return { state, live, found: { sizeBytes, members: found } };
}
const present = (name: string, sizeBytes = GIB): FoundMember => ({
  name,
  state: "Present",
  devid: 1,
  deviceUUID: `uuid-${name}`,
  sizeBytes,
});
const ready = (name: string, sizeBytes = GIB): FoundMember => ({ name, state: "Spare", sizeBytes });
const m0 = buildSpanMember("m0");
const m1Spare = { name: "m1", sizeBytes: GIB, replaces: false };

describe("what the members of a span allow", () => {
  it.each<[string, MemberSpec[], FoundMember[], object]>([
    ["nothing more where all are in it", [m0], [present("m0")], { attainableBytes: GIB, awaited: undefined }],
    [
      "as much more as an attached one has",
      [m0, buildSpanMember("m1", { capacity: "3Gi" })],
      [present("m0")],
      { attainableBytes: 4 * GIB, awaited: undefined },
    ],
    [
      "nothing of one that is on its way, which is named",
      [m0, buildSpanMember("m1", ON_ITS_WAY)],
      [present("m0")],
      { attainableBytes: GIB, awaited: expect.stringContaining("member m1 (claim claim-m1 is not attached") },
    ],
    [
      "what was asked for of one whose volume has become that large",
      [buildSpanMember("m0", { capacity: "2Gi" }, { size: "2Gi" })],
      [present("m0")],
      { attainableBytes: 2 * GIB, awaited: undefined },
    ],
    [
      "nothing of one whose volume is still the old one, which is told",
      [buildSpanMember("m0", {}, { size: "2Gi" })],
      [present("m0")],
      { attainableBytes: GIB, awaited: expect.stringContaining("claim-m0 has 1Gi of the 2Gi asked for") },
    ],
    [
      "nothing of one that shall leave",
      [m0, buildSpanMember("m1", { capacity: "3Gi" }, LEAVING)],
      [present("m0"), present("m1")],
      { attainableBytes: 2 * GIB, leaving: true, unreleased: false },
    ],
    [
      "one that has left to be let go of, even if it is wanted again",
      [m0, buildSpanMember("m1", { capacity: "3Gi" })],
      [present("m0"), { name: "m1", state: "Leaving" }],
      { attainableBytes: GIB, leaving: false, unreleased: true },
    ],
    [
      "nothing of a spare, which an emergency may take once it is ready",
      [m0, buildSpanMember("m1", {}, SPARE)],
      [present("m0"), ready("m1")],
      { attainableBytes: GIB, spares: [m1Spare], spareToPrepare: false, leaving: false, unreleased: false },
    ],
    [
      "a plain spare for an emergency, and what waits beside it to take others' place",
      [m0, buildSpanMember("m1", {}, SPARE), buildSpanMember("m2", { capacity: "2Gi" }, COMING)],
      [present("m0"), ready("m1"), ready("m2", 2 * GIB)],
      { attainableBytes: GIB, spares: [m1Spare, { name: "m2", sizeBytes: 2 * GIB, replaces: true }] },
    ],
    [
      "a spare to prepare once it is attached",
      [m0, buildSpanMember("m1", {}, SPARE)],
      [present("m0")],
      { attainableBytes: GIB, spares: [], spareToPrepare: true, awaited: undefined },
    ],
    [
      "no spare to prepare before, and nobody waits for it",
      [m0, buildSpanMember("m1", ON_ITS_WAY, SPARE)],
      [present("m0")],
      { spareToPrepare: false, awaited: undefined },
    ],
    [
      "what a spare has that is wanted in the filesystem by now",
      [m0, buildSpanMember("m1")],
      [present("m0"), ready("m1")],
      { attainableBytes: 2 * GIB, spares: [], spareToPrepare: false },
    ],
    [
      "nothing of one whose device carries something",
      [m0, buildSpanMember("m1", { capacity: "3Gi" })],
      [present("m0"), { name: "m1", state: "Refused", why: "ext4" }],
      { attainableBytes: GIB, spares: [], spareToPrepare: false },
    ],
    [
      "such a device to look at again once it is to stay beside the filesystem: somebody may have wiped it",
      [m0, buildSpanMember("m1", {}, SPARE)],
      [present("m0"), { name: "m1", state: "Refused", why: "ext4" }],
      { attainableBytes: GIB, spares: [], spareToPrepare: true },
    ],
    [
      "no such device that was looked at a moment ago",
      [m0, buildSpanMember("m1", {}, SPARE)],
      [present("m0"), { name: "m1", state: "Refused", why: "ext4", lookedMs: -29_999 }],
      { spareToPrepare: false },
    ],
    [
      "such a device to look at again that was asked to go, where nobody has taken that back",
      [m0, buildSpanMember("m1", {}, LEAVING)],
      [present("m0"), { name: "m1", state: "Refused", why: "ext4", lookedMs: -30_000 }],
      { leaving: false, unreleased: true },
    ],
    [
      "nothing more once it was let go of",
      [m0, buildSpanMember("m1", {}, LEAVING)],
      [present("m0"), { name: "m1", state: "Removed" }],
      { leaving: false, unreleased: false },
    ],
  ])("is %s", (_what, members, found, expected) => {
    expect(spanMemberFactsOf(mountedSpan(members, found).state, 0)).toMatchObject(expected);
  });

  it("is nothing of one whose device carried something, until this agent has looked at it, too", () => {
    const refused = { refused: [{ name: "m1", message: "ext4" }] };
    const facts = (...found: FoundMember[]) =>
      spanMemberFactsOf(mountedSpan([m0, buildSpanMember("m1")], [present("m0"), ...found], refused).state, 0);
    expect(facts()).toMatchObject({ attainableBytes: GIB });
    expect(facts(ready("m1"))).toMatchObject({ attainableBytes: 2 * GIB });
  });
});

describe("the next look at members whose devices carry something", () => {
  const refused = (name: string, lookedMs: number): FoundMember => ({ name, state: "Refused", why: "ext4", lookedMs });
  const next = (...found: FoundMember[]): number | undefined =>
    nextLookMs(
      mountedSpan([m0, buildSpanMember("m1", {}, SPARE), buildSpanMember("m2", {}, LEAVING)], found).state,
      100_000,
    );

  it("is 30 s after the last one, of the one that was looked at first", () => {
    expect(next(present("m0"), refused("m1", 90_000), refused("m2", 80_000))).toBe(10_000);
  });

  it("is tried again later where it had no turn, and not at once for ever", () => {
    expect(next(present("m0"), refused("m1", 50_000))).toBe(30_000);
  });

  it("is none where there are none, or they are wanted in the filesystem, whose extends look", () => {
    expect(next(present("m0"))).toBeUndefined();
    expect(next(refused("m0", 90_000))).toBeUndefined();
  });
});

describe("deciding about the size of a span", () => {
  const decide = (
    sizeBytes: number,
    fromBytes: number,
    members: MemberSpec[],
    found: FoundMember[],
    interrupted?: Operation,
  ) => {
    const { state } = mountedSpan(members, found);
    return decideOperation({
      mounted: true,
      readOnly: false,
      sizeBytes: state.sizeBytes,
      layoutKnown: true,
      removalWanted: false,
      removed: false,
      shrinksOnlyUnmounted: false,
      members: spanMemberFactsOf(state, 0),
      target: { sizeBytes, fromBytes, epoch: 1, decidedAt: "2026-01-01T00:00:00Z", notAfterMs: undefined },
      highestEpoch: 1,
      endedDecidedAt: undefined,
      running: undefined,
      interrupted,
    });
  };

  it("extends to the target where the members reach it, and as far as they reach otherwise", () => {
    const members = [m0, buildSpanMember("m1")];
    expect(decide(2 * GIB, GIB, members, [present("m0")])).toMatchObject({ act: "Start", toBytes: 2 * GIB });
    expect(decide(5 * GIB, GIB, members, [present("m0")])).toMatchObject({ act: "Start", toBytes: 2 * GIB });
  });

  it("waits for a member, by name, where nothing more is there", () => {
    const members = [m0, buildSpanMember("m1", ON_ITS_WAY)];
    expect(decide(2 * GIB, GIB, members, [present("m0")])).toMatchObject({
      act: "Nothing",
      reason: "WaitingForMember",
      message: expect.stringContaining("member m1"),
    });
  });

  it("shrinks only by members that the layout asks to take out", () => {
    const found = [present("m0"), present("m1")];
    const leaving = [m0, buildSpanMember("m1", {}, LEAVING)];
    expect(decide(GIB, 2 * GIB, leaving, found)).toMatchObject({ act: "Start", kind: "Shrink", toBytes: GIB });
    const staying = [m0, buildSpanMember("m1")];
    expect(decide(GIB, 2 * GIB, staying, found)).toMatchObject({ act: "Nothing", reason: "NoMemberLeaves" });
  });

  it("lets go of what has left once nothing else is to be done", () => {
    const found = [present("m0"), { name: "m1", state: "Leaving" } as const];
    const members = [m0, buildSpanMember("m1", {}, LEAVING)];
    expect(decide(GIB, GIB, members, found)).toEqual({ act: "ReleaseMembers", spareToPrepare: false });
    const more = [...members, buildSpanMember("m2")];
    expect(decide(2 * GIB, GIB, more, found)).toMatchObject({ act: "Start", kind: "Extend" });
  });

  it("prepares a spare whatever comes of letting go of what has left", () => {
    const members = [m0, buildSpanMember("m1", {}, LEAVING), buildSpanMember("m2", {}, SPARE)];
    const found = [present("m0"), { name: "m1", state: "Leaving" } as const];
    expect(decide(GIB, GIB, members, found)).toEqual({ act: "ReleaseMembers", spareToPrepare: true });
    expect(decide(GIB, GIB, members, [...found, ready("m2")])).toEqual({
      act: "ReleaseMembers",
      spareToPrepare: false,
    });
  });

  it("prepares a spare once nothing else is to be done", () => {
    const members = [m0, buildSpanMember("m1", {}, SPARE)];
    expect(decide(GIB, GIB, members, [present("m0")])).toEqual({ act: "PrepareSpares" });
    expect(decide(2 * GIB, GIB, [...members, buildSpanMember("m2")], [present("m0")])).toMatchObject({ act: "Start" });
    expect(decide(2 * GIB, GIB, members, [present("m0"), ready("m1")])).toMatchObject({ reason: "WaitingForMember" });
  });

  it("resumes an extend that another node began only once its members have come, too", () => {
    const interrupted: Operation = {
      kind: "Extend",
      from: "1Gi",
      to: "2Gi",
      epoch: 1,
      startedAt: "2026-01-01T00:00:00Z",
      step: "extending",
    };
    const came = [m0, buildSpanMember("m1")];
    const awaited = [m0, buildSpanMember("m1", ON_ITS_WAY)];
    const resume = (members: MemberSpec[]) => decide(2 * GIB, GIB, members, [present("m0")], interrupted);
    expect(resume(came)).toEqual({ act: "Resume", operation: interrupted });
    expect(resume(awaited)).toMatchObject({ act: "Nothing", reason: "WaitingForMember" });
    // Nobody is coming: it fails with what is missing, and the next target counts.
    expect(resume([m0])).toEqual({ act: "Resume", operation: interrupted });
  });
});

describe("the status of a span's layout", () => {
  const statusOf = ({ state, live, found }: ReturnType<typeof mountedSpan>, change: VolumeChange = {}) =>
    layoutStatus({
      state: buildVolumeState(state.record, { ...found, ...change }),
      nodeName: "node-a",
      nowMs: 0,
      live,
    });

  it("names each device of the filesystem by number and UUID, and those that are out of it", () => {
    const members = [m0, buildSpanMember("m1", {}, LEAVING)];
    const before: FilesystemLayoutStatus = { members: [{ name: "m1", size: "1Gi", state: "Present", devid: 2 }] };
    const span = mountedSpan(members, [present("m0", 2 * GIB), { name: "m1", state: "Removed" }], before);
    expect(statusOf(span).members).toEqual([
      { name: "m0", devid: 1, deviceUUID: "uuid-m0", size: "2Gi", state: "Present" },
      { name: "m1", size: "1Gi", state: "Removed" },
    ]);
  });

  it("lets what was said of a device stand while its member is in the filesystem, whatever is in its place by now", () => {
    const said = { devid: 2, deviceUUID: "uuid-before" };
    const before = { members: [{ name: "m0", size: "1Gi", state: "Present" as const, ...said }] };
    expect(statusOf(mountedSpan([m0], [present("m0")], before)).members).toMatchObject([said]);
    const unread: FoundMember = { name: "m0", state: "Present", devid: 2, sizeBytes: GIB };
    expect(statusOf(mountedSpan([m0], [unread], before)).members).toMatchObject([said]);
    const out: FilesystemLayoutStatus = { members: [{ name: "m0", size: "1Gi", state: "Missing", ...said }] };
    expect(statusOf(mountedSpan([m0], [present("m0")], out)).members).toMatchObject([{ deviceUUID: "uuid-m0" }]);
  });

  it("says what a device carries that was not taken in, until that device was looked at in this mount", () => {
    const members = [m0, buildSpanMember("m1"), buildSpanMember("m2")];
    const said = { name: "m2", message: "xfs" };
    const before = { refused: [said, { name: "m9", message: "of one that the layout names no more" }] };
    const span = mountedSpan(members, [present("m0"), { name: "m1", state: "Refused", why: "ext4 \u001b" }], before);
    expect(statusOf(span).refused).toEqual([{ name: "m1", message: "ext4 \\u001b" }, said]);
    expect(statusOf(span).members?.map(({ name }) => name)).toEqual(["m0"]);
    expect(statusOf(span, { mounted: undefined, members: [] }).refused).toEqual([said]);
    const foundAs = (...found: FoundMember[]) =>
      statusOf(mountedSpan(members, [present("m0"), ...found], before)).refused;
    expect(foundAs()).toEqual([said]);
    expect(foundAs({ name: "m2", state: "Leaving" })).toEqual([said]);
    for (const state of ["Present", "Spare", "Removed"] as const)
      expect(foundAs({ name: "m2", state })).toBeUndefined();
  });

  it("keeps what was said of the members while the filesystem is not mounted, and never takes Removed back", () => {
    const members = [m0, buildSpanMember("m1", {}, LEAVING)];
    const before: FilesystemLayoutStatus = {
      members: [
        { name: "m0", size: "1Gi", state: "Present", devid: 1 },
        { name: "m1", size: "1Gi", state: "Removed" },
        { name: "m9", size: "1Gi", state: "Removed" },
      ],
    };
    const span = mountedSpan(members, [present("m0")], before);
    const kept = before.members?.slice(0, 2);
    expect(statusOf(span, { mounted: undefined, sizeBytes: undefined, members: [] }).members).toEqual(kept);
    // Mounted, and not looked at yet: nothing that was there may seem to have gone.
    expect(statusOf(span, { members: [] }).members).toEqual(kept);
    expect(statusOf(span).members).toContainEqual({ name: "m1", size: "1Gi", state: "Removed" });
  });

  it.each<["Extend" | "Shrink", string, boolean]>([
    ["Extend", "2Gi", false],
    ["Extend", "3Gi", true],
    ["Shrink", "2Gi", false],
    ["Shrink", "1Gi", true],
  ])(
    "says of a failed %s to %s, which whole members went beyond or stopped short of, whether it is stalled: %s",
    (kind, to, stalled) => {
      const sizeBytes = kind === "Extend" ? 2.5 * GIB : 1.5 * GIB;
      const { state, live, found } = mountedSpan([m0], [present("m0", sizeBytes)]);
      const at = "2026-01-01T00:00:00Z";
      const lastOperation = { kind, from: "1Gi", to, epoch: 1, startedAt: at, endedAt: at, reached: to } as const;
      const record = { ...state.record, lastOperation: { ...lastOperation, outcome: "Failed" as const } };
      const { conditions } = statusOf({ state: { ...state, record }, live, found });
      expect(conditions?.find(({ type }) => type === "Stalled")?.status).toBe(stalled ? "True" : "False");
    },
  );

  it("says that it is mounted as long as members may be in use here", () => {
    const span = mountedSpan([m0], [present("m0")]);
    expect(statusOf(span, { mounted: undefined, held: true }).mounted).toBe(true);
    expect(statusOf(span, { mounted: undefined, held: false }).mounted).toBe(false);
    const recorded = { ...span.state.record, stagingPath: "/staged" };
    expect(newVolumeState(recorded, true).held).toBe(true);
    expect(newVolumeState(span.state.record, true).held).toBe(false);
  });

  it.each([
    ["has failed", "MemberFailed", "Reconciling False Ready", "Stalled True MemberFailed"],
    ["is not here", "WaitingForMember", "Reconciling True WaitingForMember", "Stalled False Ready"],
  ] as const)(
    "is ready while a member cannot be let go of since its driver %s",
    (_why, reason, reconciling, stalled) => {
      const span = mountedSpan([m0], [present("m0"), { name: "m1", state: "Leaving" }]);
      const { conditions } = statusOf(span, { leavingProblem: { reason, message: "the array is on fire" } });
      const said = conditions?.map(({ type, status, reason: because }) => `${type} ${status} ${because}`);
      expect(said).toEqual(["Ready True Ready", reconciling, stalled]);
    },
  );

  it("is ready, and says what it waits for, while a member is on its way", () => {
    const span = mountedSpan([m0, buildSpanMember("m1", ON_ITS_WAY)], [present("m0")]);
    const conditions = statusOf(span).conditions?.map(({ type, status, reason }) => `${type} ${status} ${reason}`);
    expect(conditions).toEqual(["Ready True Ready", "Reconciling True WaitingForMember", "Stalled False Ready"]);
  });
});

describe("a layout that was put back from a backup", () => {
  it("is Stalled with driver and volume handle of the member that it lacks, though its epoch is stale, too", () => {
    const [m0, m1] = [buildSpanMember("m0"), buildSpanMember("m1")];
    const whole = recordWithLayout(buildSpanLayout({ members: [m0, m1] }), undefined);
    const restored = buildSpanLayout({ members: [m0] });
    const record = recordWithLayout(restored, { ...whole, memberMade: true, stagingPath: "/staging" });
    const inside = ["m0", "m1"].map((name, index): FoundMember => ({ name, state: "Present", devid: index + 1 }));
    const state = buildVolumeState(record, { members: inside, sizeBytes: 2 * GIB, targetRefusal: "epoch 2 < 3" });
    const stalledBy = (live: FilesystemLayout) =>
      layoutStatus({ state, nodeName: "node-a", nowMs: 0, live }).conditions?.find(({ type }) => type === "Stalled");
    expect(stalledBy(restored)).toMatchObject({
      status: "True",
      reason: "MembersMissing",
      message: "spec.members lacks member m1 (volume volume-m1 of driver members.example.com, claim claim-m1)",
    });
    expect(stalledBy(buildSpanLayout({ members: [m0, m1] }))).toMatchObject({ reason: "StaleEpoch" });
  });

  const [m0, m1] = [buildSpanMember("m0"), buildSpanMember("m1")];
  const members = ["m0", "m1"].map((name) => ({ name, size: "1Gi", state: "Present" as const }));
  const whole = buildSpanLayout({ members: [m0, m1] });
  const known = recordWithLayout({ ...whole, status: { ...whole.status, members } }, undefined);
  const restored = buildSpanLayout({ members: [m0] });
  const formerOf = (record: ReturnType<typeof recordWithLayout>) =>
    record.backend === "span" ? record.former?.map(({ name, volume }) => [name, volume?.volumeHandle]) : undefined;

  it("goes on naming that member, with driver and volume handle, once the filesystem is unmounted", () => {
    const staged = recordWithLayout(restored, { ...known, memberMade: true, stagingPath: "/staging" });
    expect(formerOf(staged)).toBeUndefined();
    const record = recordWithLayout(restored, { ...staged, stagingPath: undefined });
    expect(formerOf(record)).toEqual([["m1", "volume-m1"]]);
    const live = { ...restored, status: { ...restored.status, members } };
    const said = layoutStatus({ state: newVolumeState(record, true), nodeName: "node-a", nowMs: 0, live });
    expect(said.members).toEqual(members);
    expect(said.conditions?.find(({ type }) => type === "Stalled")).toMatchObject({
      reason: "MembersMissing",
      message: "spec.members lacks member m1 (volume volume-m1 of driver members.example.com, claim claim-m1)",
    });
    // Another node knows no volume of it, and goes on saying that it is one.
    const elsewhere = newVolumeState(recordWithLayout(live, undefined), false);
    expect(layoutStatus({ state: elsewhere, nodeName: "node-b", nowMs: 0, live }).members).toEqual(members);
  });

  it("has its former member remembered until it names it again, and none that was asked to leave", () => {
    const record = recordWithLayout(restored, known);
    expect(formerOf(recordWithLayout(restored, record))).toEqual([["m1", "volume-m1"]]);
    expect(formerOf(recordWithLayout(whole, record))).toBeUndefined();
    const leaving = recordWithLayout(buildSpanLayout({ members: [m0, { ...m1, state: "Removed" }] }), known);
    expect(formerOf(recordWithLayout(restored, leaving))).toBeUndefined();
  });
});
