import { describe, expect, it } from "@jest/globals";
import { createMaintenanceWindow } from "../../../../src/policy-engine/policies/maintenance-window.ts";

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
