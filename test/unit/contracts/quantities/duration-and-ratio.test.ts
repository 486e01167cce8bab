import { describe, expect, it } from "@jest/globals";
import { DurationError, formatDuration, parseDuration } from "../../../../src/contracts/quantities/duration.ts";
import { formatPercent, PercentError, parsePercent } from "../../../../src/contracts/quantities/ratio.ts";

describe("a duration", () => {
  it.each([
    ["0s", 0],
    ["250ms", 250],
    ["1h30m", 5_400_000],
    ["1.5s", 1500],
    ["7d", 604_800_000],
  ])("%s is %d milliseconds", (text, durationMs) => {
    expect(parseDuration(text)).toBe(durationMs);
  });

  it.each(["", "10", "1 h", "h", "-1s", "1w", "1hh"])("%p is refused by name", (text) => {
    expect(() => parseDuration(text)).toThrow(DurationError);
    expect(() => parseDuration(text)).toThrow(`"${text}"`);
  });

  it.each([
    [0, "0s"],
    [40, "40ms"],
    [5_400_000, "1h30m"],
    [90_061_000, "1d1h1m1s"],
  ])("%d ms are written as %s", (durationMs, text) => {
    expect(formatDuration(durationMs)).toBe(text);
  });
});

describe("a percentage", () => {
  it("becomes a ratio", () => {
    expect(parsePercent("60%")).toBe(0.6);
    expect(parsePercent("12.5%")).toBe(0.125);
  });

  it.each(["60", "0.6", "60 %", "-5%", "%"])("%p is refused by name", (text) => {
    expect(() => parsePercent(text)).toThrow(PercentError);
  });

  it("is written without needless digits", () => {
    expect(formatPercent(0.8)).toBe("80%");
    expect(formatPercent(0.8137)).toBe("81.4%");
    expect(formatPercent(0.29)).toBe("29%");
  });
});
