import { describe, expect, it } from "@jest/globals";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import { createMaintenanceWindow } from "../../../../src/policy-engine/policies/maintenance-window.ts";
import { aVolume } from "../../../builders/facts.ts";
import { aPolicy } from "../../../builders/policy.ts";

const HOUR_MS = 3_600_000;
const at = (text: string): number => Date.parse(text);

describe("a maintenance window", () => {
  const nightly = createMaintenanceWindow("0 2 * * *", 3 * HOUR_MS, "Europe/Berlin");

  it.each([
    ["2026-01-10T00:59:59Z", false],
    ["2026-01-10T01:00:00Z", true],
    ["2026-01-10T03:59:59Z", true],
    ["2026-01-10T04:00:00Z", false],
    ["2026-07-10T00:00:00Z", true], // summer time: an hour earlier
    ["2026-07-10T03:00:00Z", false],
  ])("at %s in its own time zone is open: %s", (time, isOpen) => {
    expect(nightly.isOpen(at(time))).toBe(isOpen);
  });

  it("knows when it opens next", () => {
    expect(nightly.nextOpenMs(at("2026-01-10T12:00:00Z"))).toBe(at("2026-01-11T01:00:00Z"));
  });

  it("knows when it closes, where it is open", () => {
    expect(nightly.closesMs(at("2026-01-10T01:00:00Z"))).toBe(at("2026-01-10T04:00:00Z"));
    expect(nightly.closesMs(at("2026-01-10T03:59:59Z"))).toBe(at("2026-01-10T04:00:00Z"));
    expect(nightly.closesMs(at("2026-01-10T04:00:00Z"))).toBeUndefined();
  });

  it("is in UTC unless a zone is given", () => {
    expect(createMaintenanceWindow("30 6 * * 1", HOUR_MS).isOpen(at("2026-11-16T06:45:00Z"))).toBe(true);
    expect(createMaintenanceWindow("30 6 * * 1", HOUR_MS).isOpen(at("2026-11-17T06:45:00Z"))).toBe(false);
  });

  it("stays open across midnight and across its own next opening", () => {
    const late = createMaintenanceWindow("0 23 * * *", 2 * HOUR_MS);
    expect(late.isOpen(at("2026-01-11T00:30:00Z"))).toBe(true);
    expect(createMaintenanceWindow("0 * * * *", 2 * HOUR_MS).isOpen(at("2026-01-11T00:30:00Z"))).toBe(true);
  });

  it("says in words what it is", () => {
    expect(nightly.text).toBe("0 2 * * * for 3h (Europe/Berlin)");
  });
});

// The clock goes forward from 02:00 to 03:00 on 2026-03-29 in Berlin and on 2026-03-08 in New York, and back from 03:00 and 02:00 on 2026-10-25
// and 2026-11-01; on Lord Howe Island from 02:00 to 02:30 on 2026-10-04, and from 02:00 to 01:30 on 2026-04-05.
describe("a maintenance window on a day on which the clock is set", () => {
  const MINUTE_MS = 60_000;
  /** When it opens and closes, minute by minute, in UTC. */
  function changes(cron: string, minutes: number, timeZone: string, from: string): string[] {
    const window = createMaintenanceWindow(cron, minutes * MINUTE_MS, timeZone);
    const found: string[] = [];
    let wasOpen = window.isOpen(at(from) - MINUTE_MS);
    for (let ms = at(from); ms < at(from) + 8 * HOUR_MS; ms += MINUTE_MS) {
      const isOpen = window.isOpen(ms);
      if (isOpen !== wasOpen) found.push(`${isOpen ? "opens" : "closes"} ${new Date(ms).toISOString().slice(11, 16)}`);
      wasOpen = isOpen;
    }
    return found;
  }

  it.each<[string, string, number, string, string, string[]]>([
    [
      "Berlin, its start is skipped",
      "30 2 * * *",
      90,
      "Europe/Berlin",
      "2026-03-28T22:00Z",
      ["opens 01:00", "closes 02:30"],
    ],
    [
      "New York, its start is skipped",
      "30 2 * * *",
      10,
      "America/New_York",
      "2026-03-08T05:00Z",
      ["opens 07:00", "closes 07:10"],
    ],
    [
      "Lord Howe, its start is skipped",
      "15 2 * * *",
      10,
      "Australia/Lord_Howe",
      "2026-10-03T13:00Z",
      ["opens 15:30", "closes 15:40"],
    ],
    [
      "Berlin, its start comes twice",
      "30 2 * * *",
      10,
      "Europe/Berlin",
      "2026-10-24T22:00Z",
      ["opens 00:30", "closes 00:40"],
    ],
    [
      "New York, its start comes twice",
      "30 1 * * *",
      10,
      "America/New_York",
      "2026-11-01T04:00Z",
      ["opens 05:30", "closes 05:40"],
    ],
    [
      "Lord Howe, its start comes twice",
      "45 1 * * *",
      10,
      "Australia/Lord_Howe",
      "2026-04-04T12:00Z",
      ["opens 14:45", "closes 14:55"],
    ],
    [
      "Berlin, an hour of it is skipped",
      "0 1 * * *",
      240,
      "Europe/Berlin",
      "2026-03-28T22:00Z",
      ["opens 00:00", "closes 04:00"],
    ],
    [
      "Berlin, an hour of it comes twice",
      "0 1 * * *",
      240,
      "Europe/Berlin",
      "2026-10-24T22:00Z",
      ["opens 23:00", "closes 03:00"],
    ],
    [
      "Lord Howe, half an hour of it comes twice",
      "45 1 * * *",
      45,
      "Australia/Lord_Howe",
      "2026-04-04T12:00Z",
      ["opens 14:45", "closes 15:30"],
    ],
  ])("opens once and for its whole duration: %s", (_where, cron, minutes, timeZone, from, expected) => {
    expect(changes(cron, minutes, timeZone, from)).toEqual(expected);
  });

  it("is not announced a second time within the hour that comes twice", () => {
    const window = createMaintenanceWindow("30 2 * * *", HOUR_MS, "Europe/Berlin");
    expect(window.nextOpenMs(at("2026-10-25T00:45Z"))).toBe(at("2026-10-26T01:30Z"));
    expect(window.closesMs(at("2026-10-25T00:45Z"))).toBe(at("2026-10-25T01:30Z"));
  });
});

// By the wall clock of the place as Intl has it, and not by the package that reads crons.
describe("a shrink", () => {
  const DURATION_MS = 3 * HOUR_MS;
  const YEAR_MS = 365 * 24 * HOUR_MS;
  const WEEK_MS = 7 * 24 * HOUR_MS;

  /** What the place's own calendar says: three hours from the first instant of a day at or after 02:00. */
  function wallClock(timeZone: string) {
    const format = new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "short" });
    let day = "";
    let openedMs = Number.NEGATIVE_INFINITY;
    return (ms: number): boolean => {
      const [date = "", time = ""] = format.format(ms).split(" ");
      if (date !== day && time >= "02:00") [day, openedMs] = [date, ms];
      return ms - openedMs < DURATION_MS;
    };
  }

  it.each<[string, string, number, number]>([
    ["Europe/Berlin", "2026-01-01T00:00Z", YEAR_MS, HOUR_MS],
    ["America/New_York", "2026-03-05T00:00Z", WEEK_MS, HOUR_MS / 2],
    ["America/New_York", "2026-10-29T00:00Z", WEEK_MS, HOUR_MS / 2],
    ["Australia/Lord_Howe", "2026-04-02T00:00Z", WEEK_MS, HOUR_MS / 2],
    ["Australia/Lord_Howe", "2026-10-01T00:00Z", WEEK_MS, HOUR_MS / 2],
  ])("in %s from %s on begins within its windows, and never outside of them", (timeZone, from, spanMs, stepMs) => {
    const windows = [{ cron: "0 2 * * *", duration: "3h", timeZone }];
    const policy = aPolicy({ behavior: { shrink: { windows } } });
    const isOpen = wallClock(timeZone);
    const wrong: string[] = [];
    let shrinks = 0;
    for (let nowMs = at(from); nowMs < at(from) + spanMs; nowMs += stepMs) {
      const plan = decide(aVolume({ usedRatio: 0.1, facts: { nowMs } }), policy, NO_CEILINGS);
      const isExpected = isOpen(nowMs) ? plan.kind === "shrink" : plan.reason === "OutsideWindow";
      // The first day may have begun within its window.
      if (!isExpected && nowMs > at(from) + 24 * HOUR_MS) wrong.push(`${new Date(nowMs).toISOString()} ${plan.reason}`);
      if (plan.kind === "shrink") shrinks += 1;
    }
    expect(wrong).toEqual([]);
    expect(shrinks).toBeGreaterThan(spanMs / (10 * stepMs));
  });
});
