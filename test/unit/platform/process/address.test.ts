import { describe, expect, it } from "@jest/globals";
import { addressFlag, formatAddress, isLoopback } from "../../../../src/platform/process/flags.ts";

describe("an address in a flag", () => {
  it.each([
    ["127.0.0.1:9465", "127.0.0.1", 9465],
    ["[::1]:0", "::1", 0],
    ["engines.example:65535", "engines.example", 65_535],
  ])("%s is read, and written the same way", (text, host, port) => {
    expect(addressFlag("engine", text)).toEqual({ host, port });
    expect(formatAddress({ host, port })).toBe(text);
  });

  it.each(["127.0.0.1", "::1:9465", "[127.0.0.1]:1", ":1", "a:65536", "a:", "a:1:2", "a:-1"])(
    "%s is refused with the flag's name",
    (text) => {
      expect(() => addressFlag("engine", text)).toThrow(/--engine .* not HOST:PORT/);
    },
  );

  it.each([
    ["127.0.0.1", true],
    ["127.8.9.10", true],
    ["::1", true],
    ["localhost", true],
    ["0.0.0.0", false],
    ["::", false],
    ["128.0.0.1", false],
    ["localhost.example", false],
    ["127.0.0.1.example", false],
    ["", false],
  ])("%s stays on this machine: %s", (host, stays) => {
    expect(isLoopback(host)).toBe(stays);
  });
});
