import { describe, expect, it } from "@jest/globals";
import {
  acceptedGrant,
  type EmergencyFacts,
  grantRead,
  isAlive,
  reachableGrant,
  shouldSpendGrant,
} from "../../../../src/agent/decide/decide-emergency.ts";
import { readGrant } from "../../../../src/contracts/kinds/grant.ts";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";

const NOW_MS = Date.parse("2026-01-01T00:00:00Z");
const offered = { size: "2Gi", minAvailable: "200Mi", expiry: "2026-01-02T00:00:00Z", epoch: 4 };
type Reachable = NonNullable<Parameters<typeof reachableGrant>[2]>;
const plain = (name: string, gib: number) => ({ name, sizeBytes: gib * GIB, replaces: false });
const facts = (change: Partial<EmergencyFacts> = {}): EmergencyFacts => ({
  monotonicMs: 1000,
  sizeBytes: GIB,
  capacityBytes: GIB,
  availableBytes: 199 * MIB,
  memberAhead: false,
  grant: readGrant(offered),
  alive: true,
  running: undefined,
  retryMs: 0,
  ...change,
});

describe("an emergency grant", () => {
  it("is spent when less than minAvailable is left", () => {
    expect(shouldSpendGrant(facts())).toBe(true);
  });

  it("is spent while a shrink runs, which is then cancelled", () => {
    expect(shouldSpendGrant(facts({ running: "Shrink" }))).toBe(true);
  });

  it("is spent again when the member has its size and the filesystem has not", () => {
    expect(shouldSpendGrant(facts({ sizeBytes: 2 * GIB, memberAhead: true }))).toBe(true);
  });

  it.each<[string, Partial<EmergencyFacts>]>([
    ["there is none", { grant: undefined }],
    ["minAvailable is left", { availableBytes: 200 * MIB }],
    ["it lives no longer", { alive: false }],
    ["the size is reached already", { sizeBytes: 2 * GIB }],
    ["the member is larger than granted, its filesystem is not", { sizeBytes: 3 * GIB, memberAhead: true }],
    ["an extend is running", { running: "Extend" }],
    ["the last attempt failed a moment ago", { retryMs: 1001 }],
    ["the reading is no number", { availableBytes: Number.NaN }],
    ["the reading is negative", { availableBytes: -1 }],
    ["the reading has no capacity", { capacityBytes: 0, availableBytes: 0 }],
    ["more is available than there is", { capacityBytes: 100 * MIB }],
  ])("is not spent when %s", (_when, change) => {
    expect(shouldSpendGrant(facts(change))).toBe(false);
  });

  it.each<[string, number, Reachable | undefined, number, string[]]>([
    ["a volume whose one member takes any size", 2 * GIB, undefined, 2 * GIB, []],
    ["members that have nothing more", 2 * GIB, { attainableBytes: GIB, spares: [] }, GIB, []],
    ["members that have become larger", 2 * GIB, { attainableBytes: 1.5 * GIB, spares: [] }, 1.5 * GIB, []],
    ["a spare, as far as it goes", 3 * GIB, { attainableBytes: GIB, spares: [plain("m1", 1)] }, 2 * GIB, ["m1"]],
    [
      "a spare, no further than granted",
      1.5 * GIB,
      { attainableBytes: GIB, spares: [plain("m1", 1)] },
      1.5 * GIB,
      ["m1"],
    ],
    ["no spare that is larger than granted", 2 * GIB, { attainableBytes: GIB, spares: [plain("m1", 2)] }, GIB, []],
    [
      "no spare that is larger than what the grant adds, where a member of today is not on this node",
      2 * GIB,
      { attainableBytes: 0, spares: [plain("m1", 2)] },
      0,
      [],
    ],
    [
      "no spare where members have what is granted",
      2 * GIB,
      { attainableBytes: 2 * GIB, spares: [plain("m1", 1)] },
      2 * GIB,
      [],
    ],
    [
      "those of several spares that are the most and no larger than granted",
      4 * GIB,
      { attainableBytes: GIB, spares: [plain("m1", 2), plain("m2", 2), plain("m3", 1)] },
      4 * GIB,
      ["m1", "m3"],
    ],
    [
      "the fewest of those that are as much",
      4 * GIB,
      { attainableBytes: GIB, spares: [plain("m1", 2), plain("m2", 1), plain("m3", 3)] },
      4 * GIB,
      ["m3"],
    ],
    [
      "a spare that fits although another one is larger than granted",
      2 * GIB,
      { attainableBytes: GIB, spares: [plain("m1", 2), plain("m2", 1)] },
      2 * GIB,
      ["m2"],
    ],
    [
      "a plain spare before one that is to take others' place",
      4 * GIB,
      { attainableBytes: GIB, spares: [{ ...plain("m1", 2), replaces: true }, plain("m2", 1)] },
      2 * GIB,
      ["m2"],
    ],
    [
      "one that is to take others' place where the plain one is larger than granted",
      2 * GIB,
      { attainableBytes: GIB, spares: [plain("m1", 2), { ...plain("m2", 1), replaces: true }] },
      2 * GIB,
      ["m2"],
    ],
  ])("reaches with %s", (_what, grantedBytes, members, sizeBytes, spares) => {
    const reached = reachableGrant({ ...readGrant(offered), sizeBytes: grantedBytes }, GIB, members);
    expect(reached).toMatchObject({ grant: { sizeBytes }, spares });
  });

  it("of a deposed leader is refused, and the kept one stays", () => {
    const kept = { ...offered, epoch: 4 };
    expect(acceptedGrant(kept, { ...offered, size: "9Gi", epoch: 3 }, 5)).toBe(kept);
  });

  it("of the present leader replaces the kept one", () => {
    const newer = { ...offered, size: "3Gi", epoch: 5 };
    expect(acceptedGrant(offered, newer, 5)).toBe(newer);
  });

  it("that is withdrawn is gone", () => {
    expect(acceptedGrant(offered, undefined, 5)).toBeUndefined();
  });
});

describe("how long a grant lives", () => {
  const HOUR_MS = 3_600_000;
  const READ_MS = 5 * HOUR_MS;
  const BOOT = "boot-a";
  const OTHER_BOOT = "boot-b";
  const read = grantRead(offered, undefined, READ_MS, BOOT);
  /** So long after it was read, on a node whose clock shows that much more than it should. */
  const isAliveAfter = (hours: number, aheadMs: number, known = read): boolean =>
    isAlive(
      offered,
      known,
      { nowMs: NOW_MS + hours * HOUR_MS + aheadMs, monotonicMs: READ_MS + hours * HOUR_MS },
      BOOT,
    );

  it.each([0, HOUR_MS, -HOUR_MS, 24 * HOUR_MS, -24 * HOUR_MS])(
    "is a day from when its node has read it, with a clock that is %d ms ahead",
    (aheadMs) => {
      expect([0, 1, 23.9].map((hours) => isAliveAfter(hours, aheadMs))).toEqual([true, true, true]);
      expect([24, 25, 48].map((hours) => isAliveAfter(hours, aheadMs))).toEqual([false, false, false]);
    },
  );

  it("is no longer for a grant that is heard of again, and begins anew with another", () => {
    expect(grantRead(offered, read, READ_MS + HOUR_MS, BOOT)).toEqual(read);
    expect(grantRead({ ...offered, expiry: "2026-01-03T00:00:00Z" }, read, READ_MS + HOUR_MS, BOOT)?.monotonicMs).toBe(
      6 * HOUR_MS,
    );
    expect(grantRead({ ...offered, epoch: 5 }, read, READ_MS + HOUR_MS, BOOT)?.monotonicMs).toBe(6 * HOUR_MS);
    expect(grantRead(undefined, read, READ_MS, BOOT)).toBeUndefined();
  });

  it.each([
    ["less", 60_000],
    ["more", READ_MS + 48 * HOUR_MS],
  ])(
    "is told by its date from a boot on, whose clock shows %s, until the API server has named it again",
    (_what, monotonicMs) => {
      const booted = { nowMs: NOW_MS, monotonicMs };
      const late = { ...booted, nowMs: Date.parse(offered.expiry) };
      expect(isAlive(offered, read, booted, OTHER_BOOT)).toBe(true);
      expect(isAlive(offered, read, late, OTHER_BOOT)).toBe(false);
      const again = grantRead(offered, read, monotonicMs, OTHER_BOOT);
      expect(again).toMatchObject({ monotonicMs, bootID: OTHER_BOOT });
      expect(isAlive(offered, again, late, OTHER_BOOT)).toBe(true);
      const nextDay = { ...late, monotonicMs: monotonicMs + 24 * HOUR_MS };
      expect(isAlive(offered, again, nextDay, OTHER_BOOT)).toBe(false);
    },
  );

  it("is told by its date where an agent read it that did not say in which boot", () => {
    const unsaid = { of: read?.of ?? "", monotonicMs: READ_MS };
    const late = { nowMs: Date.parse(offered.expiry), monotonicMs: READ_MS };
    expect(isAlive(offered, unsaid, late, BOOT)).toBe(false);
    expect(grantRead(offered, unsaid, READ_MS + HOUR_MS, BOOT)?.monotonicMs).toBe(READ_MS + HOUR_MS);
  });

  it("is told by its date where another grant was read, or none", () => {
    const late = { nowMs: Date.parse(offered.expiry), monotonicMs: READ_MS };
    expect(isAlive(offered, undefined, late, BOOT)).toBe(false);
    expect(isAlive({ ...offered, epoch: 9 }, read, late, BOOT)).toBe(false);
  });

  it("is none where its expiry is no date", () => {
    const undated = { ...offered, expiry: "tomorrow" };
    expect(
      isAlive(undated, grantRead(undated, undefined, READ_MS, BOOT), { nowMs: NOW_MS, monotonicMs: READ_MS }, BOOT),
    ).toBe(false);
  });
});
