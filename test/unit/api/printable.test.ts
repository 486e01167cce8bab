import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { printable } from "../../../src/api/printable.ts";
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
