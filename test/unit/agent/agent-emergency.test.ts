import { describe, expect, it } from "@jest/globals";
import {
  acceptedGrant,
  type EmergencyFacts,
  grantOf,
  reachableGrant,
  shouldSpendGrant,
} from "../../../src/agent/emergency.ts";
import { GIB, MIB } from "../../../src/units/quantity.ts";

const NOW_MS = Date.parse("2026-01-01T00:00:00Z");
const offered = { size: "2Gi", minAvailable: "200Mi", expiry: "2026-01-02T00:00:00Z", epoch: 4 };
const facts = (change: Partial<EmergencyFacts> = {}): EmergencyFacts => ({
  nowMs: NOW_MS,
  sizeBytes: GIB,
  capacityBytes: GIB,
  availableBytes: 199 * MIB,
  memberAhead: false,
  grant: grantOf(offered),
  running: undefined,
  retryAtMs: 0,
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
    ["it has expired", { nowMs: Date.parse(offered.expiry) }],
    ["its expiry is no date", { grant: grantOf({ ...offered, expiry: "tomorrow" }) }],
    ["the size is reached already", { sizeBytes: 2 * GIB }],
    ["the member is larger than granted, its filesystem is not", { sizeBytes: 3 * GIB, memberAhead: true }],
    ["an extend is running", { running: "Extend" }],
    ["the last attempt failed a moment ago", { retryAtMs: NOW_MS + 1 }],
    ["the reading is no number", { availableBytes: Number.NaN }],
    ["the reading is negative", { availableBytes: -1 }],
    ["the reading has no capacity", { capacityBytes: 0, availableBytes: 0 }],
    ["more is available than there is", { capacityBytes: 100 * MIB }],
  ])("is not spent when %s", (_when, change) => {
    expect(shouldSpendGrant(facts(change))).toBe(false);
  });

  it.each<[string, number, { attainableBytes: number; spareBytes: number } | undefined, number, boolean]>([
    ["a volume whose one member takes any size", 2 * GIB, undefined, 2 * GIB, false],
    ["members that have nothing more", 2 * GIB, { attainableBytes: GIB, spareBytes: 0 }, GIB, false],
    ["members that have become larger", 2 * GIB, { attainableBytes: 1.5 * GIB, spareBytes: 0 }, 1.5 * GIB, false],
    ["a spare, as far as it goes", 3 * GIB, { attainableBytes: GIB, spareBytes: GIB }, 2 * GIB, true],
    ["a spare, no further than granted", 1.5 * GIB, { attainableBytes: GIB, spareBytes: GIB }, 1.5 * GIB, true],
    ["no spare that is larger than granted", 2 * GIB, { attainableBytes: GIB, spareBytes: 2 * GIB }, GIB, false],
    [
      "no spare that is larger than what the grant adds, where a member of today is not on this node",
      2 * GIB,
      { attainableBytes: 0, spareBytes: 2 * GIB },
      0,
      false,
    ],
    [
      "no spare where members have what is granted",
      2 * GIB,
      { attainableBytes: 2 * GIB, spareBytes: GIB },
      2 * GIB,
      false,
    ],
  ])("reaches with %s", (_what, grantedBytes, members, sizeBytes, takesSpare) => {
    const reached = reachableGrant({ ...grantOf(offered), sizeBytes: grantedBytes }, GIB, members);
    expect(reached).toMatchObject({ grant: { sizeBytes }, takesSpare });
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
