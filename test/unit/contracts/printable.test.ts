import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import {
  MESSAGE_CHARACTERS,
  printable,
  shortened,
  withDetail,
  wordsOfDriver,
} from "../../../src/contracts/printable.ts";
import { property } from "../../harness/property.ts";

describe("text of others", () => {
  it.each([
    ["an escape that sets a terminal's title", "\u001b]0;pwned\u0007", "\\u001b]0;pwned\\u0007"],
    ["a carriage return over what stands there", "full\rfine", "full\\u000dfine"],
    ["an escape of one byte, C1", "\u009b2J", "\\u009b2J"],
    ["letters from right to left", "a\u202eb", "a\\u202eb"],
    ["a line separator", "a\u2028b", "a\\u2028b"],
    ["half of a pair", "a\ud800b", "a\\ud800b"],
    ["a tag that no font shows", "a\u{e0041}b", "a\\udb40\\udc41b"],
    ["lines, letters and signs of any language", "größer:\n  大きい 🌊", "größer:\n  大きい 🌊"],
  ])("shows %s", (_what, text, expected) => {
    expect(printable(text)).toBe(expected);
  });

  property(
    "holds nothing that a terminal acts on, and stays as it is the second time",
    { runs: 500, reaches: { changed: 0.5 } },
    [fc.string({ unit: "binary" })],
    (reach, text) => {
      const shown = printable(text);
      expect(shown.replaceAll("\n", "")).not.toMatch(/\p{C}/u);
      expect(printable(shown)).toBe(shown);
      const json = JSON.stringify({ text });
      expect(JSON.parse(printable(json))).toEqual({ text });
      if (shown !== text) reach("changed");
    },
  );
});

describe("a text with a limit", () => {
  it("loses its end, and says so, and no half of a character stays", () => {
    expect(["short", "exactly8", "longer than 8", "1234567"].map((text) => shortened(text, 8))).toEqual([
      "short",
      "exactly8",
      "longer …",
      "1234567",
    ]);
    expect(shortened("123456🌊🌊", 8)).toBe("123456…");
  });

  it("keeps what is ours whole, and loses the end of another's words", () => {
    const ours = "wipe the device";
    expect([withDetail(ours, undefined), withDetail(ours, "busy")]).toEqual([ours, `${ours}: busy`]);
    const long = withDetail(ours, "x".repeat(500));
    expect([long.length, long.startsWith(`${ours}: xxx`), long.at(-1)]).toEqual([MESSAGE_CHARACTERS, true, "…"]);
    expect(withDetail("y".repeat(MESSAGE_CHARACTERS), "busy")).toBe("y".repeat(MESSAGE_CHARACTERS));
  });

  it("shows of a sidecar's words those of the driver", () => {
    const said =
      'failed to provision volume with StorageClass "fast": rpc error: code = ResourceExhausted desc = the pool is full';
    expect([wordsOfDriver(said), wordsOfDriver("the pool is full")]).toEqual(["the pool is full", "the pool is full"]);
  });
});
