// Cuts JSON apart without parsing it: a value of one byte makes an object of dozens, so what is large is parsed a piece at a time, and never
// as a whole. Pieces are as they came; whether one is JSON, whoever parses it finds.

/** The `message` says at which byte it is no JSON. */
export class PieceError extends Error {
  override name = "PieceError";
}

/** The members of an object by their names; of two of the same name the last. Throws PieceError. */
export function membersOf(json: Buffer): ReadonlyMap<string, Buffer> {
  const members = new Map<string, Buffer>();
  walk(json, "{", "}", (at) => {
    const nameEnd = json[at] === CODES['"'] ? endOfValue(json, at) : fail(at, "a name");
    const colon = afterSpace(json, nameEnd);
    if (json[colon] !== CODES[":"]) fail(colon, ":");
    const start = afterSpace(json, colon + 1);
    const end = endOfValue(json, start);
    members.set(nameOf(json, at, nameEnd), json.subarray(start, end));
    return end;
  });
  return members;
}

/** The elements of an array. Throws PieceError, also when there are more than `limit`. */
export function elementsOf(json: Buffer, limit: number): readonly Buffer[] {
  const elements: Buffer[] = [];
  walk(json, "[", "]", (at) => {
    if (elements.length >= limit) throw new PieceError(`a list has more than ${limit} elements`);
    const end = endOfValue(json, at);
    elements.push(json.subarray(at, end));
    return end;
  });
  return elements;
}

const CODES = {
  '"': 0x22,
  ",": 0x2c,
  ":": 0x3a,
  "[": 0x5b,
  "\\": 0x5c,
  "]": 0x5d,
  "{": 0x7b,
  "}": 0x7d,
} as const;
const SPACES: readonly (number | undefined)[] = [0x20, 0x09, 0x0a, 0x0d];
/** Longer ones are none that anybody reads. */
const NAME_LIMIT_BYTES = 1024;

function walk(json: Buffer, opening: "{" | "[", closing: "}" | "]", take: (at: number) => number): void {
  let at = afterSpace(json, 0);
  if (json[at] !== CODES[opening]) fail(at, opening);
  at = afterSpace(json, at + 1);
  while (json[at] !== CODES[closing]) {
    at = afterSpace(json, take(at));
    if (json[at] === CODES[closing]) break;
    if (json[at] !== CODES[","]) fail(at, `, or ${closing}`);
    at = afterSpace(json, at + 1);
    if (json[at] === CODES[closing]) fail(at, "a value");
  }
  const end = afterSpace(json, at + 1);
  if (end !== json.length) fail(end, "the end");
}

function nameOf(json: Buffer, start: number, end: number): string {
  if (end - start > NAME_LIMIT_BYTES) return "";
  try {
    return JSON.parse(json.toString("utf8", start, end)) as string;
  } catch {
    return fail(start, "a name");
  }
}

function fail(at: number, expected: string): never {
  throw new PieceError(`at byte ${at} there should be ${expected}`);
}

function afterSpace(json: Buffer, start: number): number {
  let at = start;
  while (at < json.length && SPACES.includes(json[at])) at += 1;
  return at;
}

/** After the last byte of the value that begins here. */
function endOfValue(json: Buffer, start: number): number {
  const first = json[start];
  if (first === CODES['"']) return endOfString(json, start);
  if (first === CODES["{"] || first === CODES["["]) return endOfNested(json, start);
  let at = start;
  while (at < json.length && !isAfterScalar(json[at])) at += 1;
  return at > start ? at : fail(start, "a value");
}

function isAfterScalar(code: number | undefined): boolean {
  return code === CODES[","] || code === CODES["]"] || code === CODES["}"] || SPACES.includes(code);
}

function endOfNested(json: Buffer, start: number): number {
  let depth = 0;
  for (let at = start; at < json.length; at += 1) {
    const code = json[at];
    if (code === CODES['"']) at = endOfString(json, at) - 1;
    else if (code === CODES["{"] || code === CODES["["]) depth += 1;
    else if (code === CODES["}"] || code === CODES["]"]) {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return fail(json.length, "the end of what begins before");
}

function endOfString(json: Buffer, start: number): number {
  for (let at = start + 1; at < json.length; at += 1) {
    if (json[at] === CODES["\\"]) at += 1;
    else if (json[at] === CODES['"']) return at + 1;
  }
  return fail(json.length, "the end of a text");
}
