// Text of others as it may stand in a status, an Event or a terminal: policies, file names and drivers' errors bring it. Pure.

/** Control, format (the bidirectional ones among them), unassigned and private characters, and Unicode's line and paragraph separators. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/**
 * The same with each such character but the line feed written as JSON writes it, \u001b: nothing that a terminal or viewer acts on. What is
 * JSON stays JSON that says the same. Idempotent.
 */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (character) => (character === "\n" ? character : escaped(character)));
}

function escaped(character: string): string {
  let units = "";
  for (let index = 0; index < character.length; index += 1)
    units += `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`;
  return units;
}
