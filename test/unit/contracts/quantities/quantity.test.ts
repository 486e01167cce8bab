import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import {
  formatBytes,
  formatQuantity,
  parseQuantity,
  QuantityError,
} from "../../../../src/contracts/quantities/quantity.ts";

describe("a Kubernetes quantity", () => {
  it.each([
    ["0", 0],
    ["1500000000", 1_500_000_000],
    ["10Gi", 10 * 1024 ** 3],
    ["1.5Gi", 1.5 * 1024 ** 3],
    ["500M", 500_000_000],
    ["2k", 2000],
    ["1e9", 1_000_000_000],
    ["1E3", 1000],
    [".5Ki", 512],
    ["0.1", 1],
    ["4.3Pi", 4_841_369_599_423_284],
    ["-0.0", 0],
    // As the API server shows 1.7Gi, 1.7777Gi and 1.23456Gi.
    ["1825361100800m", 1_825_361_101],
    ["1908790840524800u", 1_908_790_841],
    ["1325588706246656n", 1_325_589],
  ])("%s is %d bytes", (text, bytes) => {
    expect(parseQuantity(text)).toBe(bytes);
  });

  it.each(["", "10 Gi", "10GiB", "ten", "-1Gi", "-0.5", "9Ei", "1m", "500m", "900000u", "-2000000m", "NaN", "0x10"])(
    "%p is refused by name",
    (text) => {
      expect(() => parseQuantity(text)).toThrow(QuantityError);
      expect(() => parseQuantity(text)).toThrow(`"${text}"`);
    },
  );

  it("is as many bytes with a fraction of zero as without, whatever its digits and suffix", () => {
    const parsed = (text: string): number | string => {
      try {
        return parseQuantity(text);
      } catch (error) {
        return (error as Error).name;
      }
    };
    const digits = fc.stringMatching(/^\d{1,20}$/);
    const suffix = fc.constantFrom("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "k", "M", "i", "Xi", "Kii", "KiB");
    fc.assert(
      fc.property(digits, suffix, (whole, unit) => {
        expect(parsed(`${whole}${unit}`)).toBe(parsed(`${whole}.0${unit}`));
      }),
      { numRuns: 2000 },
    );
  });

  it.each([
    [0, "0"],
    [1, "1"],
    [1024, "1Ki"],
    [1536, "1536"],
    [10 * 1024 ** 3, "10Gi"],
    [1024 ** 3 + 1024 ** 2, "1025Mi"],
  ])("%d bytes are written canonically as %s", (bytes, text) => {
    expect(formatQuantity(bytes)).toBe(text);
    expect(parseQuantity(text)).toBe(bytes);
  });

  it.each([
    [0, "0 B"],
    [512, "512 B"],
    [1.5 * 1024 ** 3, "1.50Gi"],
    [256 * 1024 ** 2, "256Mi"],
    [-12.34 * 1024 ** 2, "-12.3Mi"],
  ])("%d bytes read to people as %s", (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text);
  });
});
