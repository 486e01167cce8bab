import { describe, expect, it } from "@jest/globals";
import { evictionReserveBytes, readEvictionReserve } from "../../../../../src/agent/storage/loop/eviction-reserve.ts";
import { GIB } from "../../../../../src/units/quantity.ts";

describe("what member files leave to kubelet", () => {
  it.each([
    ["10%", 10 * GIB],
    ["2.5%", 2.5 * GIB],
    ["0%", 0],
    ["5Gi", 5 * GIB],
    ["0", 0],
  ])("is %s of a disk of 100 GiB", (text, bytes) => {
    expect(evictionReserveBytes(readEvictionReserve(text), 100 * GIB)).toBe(bytes);
  });

  it.each(["", "100%", "-5%", "%", "ten", "5 Gi", "1e3%"])("is never %j, and the refusal names the flag", (text) => {
    expect(() => readEvictionReserve(text)).toThrow(/^--eviction-reserve .* is no percentage/);
  });
});
