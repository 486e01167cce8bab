// Text as it may stand in a status, an Event or a terminal: policies, file names and drivers' errors bring it, and it is not long. Pure.

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

/** What a message of a condition or an Event has at most, with names of ordinary length in it. */
export const MESSAGE_CHARACTERS = 160;

/** The beginning of the text, with "…" for what does not fit into so many UTF-16 units. No character is cut in two. */
export function shortened(text: string, limitCharacters: number): string {
  if (text.length <= limitCharacters) return text;
  return `${text.slice(0, limitCharacters - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
}

/** "what: detail", where the detail is another's text or stands elsewhere in full: only of the detail is the end left out. */
export function withDetail(what: string, detail: string | undefined): string {
  if (detail === undefined || what.length + LEAST_DETAIL_CHARACTERS > MESSAGE_CHARACTERS) return what;
  return shortened(`${what}: ${detail}`, MESSAGE_CHARACTERS);
}

/** A colon, and enough to know which of several it is. */
const LEAST_DETAIL_CHARACTERS = 12;

/** What a CSI driver has said itself, of words that a sidecar or kubelet has wrapped: "…: rpc error: code = Internal desc = the pool is full". */
export function wordsOfDriver(said: string): string {
  const start = said.indexOf(DESCRIPTION);
  return start < 0 ? said : said.slice(start + DESCRIPTION.length) || said;
}

const DESCRIPTION = " desc = ";
