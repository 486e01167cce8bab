// How one input becomes another: bytes, texts with a vocabulary, and JSON by its values. None knows what a parser makes of it.
import type { Random } from "./random.ts";

/** `other`: a second input, to take parts from. */
export type Mutate = (random: Random, input: Buffer, other: Buffer) => Buffer;

const NUMBERS_64 = [0n, 1n, -1n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n)];
const NUMBERS = [
  "0",
  "1",
  "-1",
  "0.1",
  "4.35",
  "1e3",
  "2147483648",
  "9007199254740993",
  "18446744073709551616",
  "9".repeat(400),
];
const HOSTILE = [
  "",
  " ",
  "\n",
  "\t",
  "\0",
  "\\",
  '"',
  "é",
  "\u202e",
  "\ud800",
  "..",
  "/",
  "__proto__",
  "constructor",
  "%",
  "NaN",
  "Infinity",
];
/** One of so many inputs has a part of it repeated up to the limit: what takes more than linear time shows there. */
const BLOWN_UP = 1 / 256;
const BLOWN_UP_BYTES = 65_536;
/** Of what is gone on from. */
export const SIZE_LIMIT_BYTES = 8192;

/** Mostly one: what is nearly right gets the furthest. */
function changes(random: Random): number {
  return random.chance(0.6) ? 1 : 2 + random.below(3);
}

export function mutateBytes(random: Random, input: Buffer, other: Buffer): Buffer {
  let bytes: Buffer = Buffer.from(input);
  for (let left = changes(random); left > 0; left -= 1) bytes = changedBytes(random, bytes, other);
  return limited(random, bytes);
}

function changedBytes(random: Random, bytes: Buffer, other: Buffer): Buffer {
  const at = random.below(bytes.length + 1);
  const end = Math.min(bytes.length, at + 1 + random.below(random.chance(0.5) ? 4 : 64));
  switch (random.below(7)) {
    case 0:
      if (at < bytes.length) bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8));
      return bytes;
    case 1:
      if (at < bytes.length) bytes[at] = random.below(256);
      return bytes;
    case 2:
      if (at + 8 <= bytes.length) writeNumber(random, bytes, at);
      return bytes;
    case 3:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(end)]);
    case 4:
      return Buffer.concat([bytes.subarray(0, end), bytes.subarray(at)]);
    case 5:
      return Buffer.concat([bytes.subarray(0, at), Buffer.from([random.below(256)]), bytes.subarray(at)]);
    default: {
      const from = random.below(other.length + 1);
      return Buffer.concat([bytes.subarray(0, at), other.subarray(from, from + end - at), bytes.subarray(end)]);
    }
  }
}

function writeNumber(random: Random, bytes: Buffer, at: number): void {
  const number = BigInt.asUintN(64, random.pick(NUMBERS_64));
  if (random.chance(0.5)) bytes.writeBigUInt64LE(number, at);
  else bytes.writeBigUInt64BE(number, at);
}

/** Bytes behind it stay as they are: of a block the length is given. */
export function mutateBlock(random: Random, input: Buffer): Buffer {
  const block = Buffer.from(input);
  for (let left = changes(random); left > 0; left -= 1) {
    const at = random.below(block.length - 8);
    if (random.chance(0.5)) writeNumber(random, block, at);
    else block[at] = random.below(256);
  }
  return random.chance(1 / 64) ? block.subarray(0, random.below(block.length)) : block;
}

/** `words`: what the grammar is made of. */
export function textMutator(words: readonly string[]): Mutate {
  const vocabulary = [...words, ...words, ...NUMBERS, ...HOSTILE];
  return (random, input, other) => {
    let text = input.toString("utf8");
    for (let left = changes(random); left > 0; left -= 1) text = changedText(random, text, other, vocabulary);
    return limited(random, Buffer.from(text));
  };
}

function changedText(random: Random, text: string, other: Buffer, vocabulary: readonly string[]): string {
  const at = random.below(text.length + 1);
  const end = at + random.below(random.chance(0.5) ? 4 : 32);
  switch (random.below(6)) {
    case 0:
      return text.slice(0, at) + random.pick(vocabulary) + text.slice(at);
    case 1:
      return text.slice(0, at) + random.pick(vocabulary) + text.slice(end);
    case 2:
      return text.slice(0, at) + text.slice(end);
    case 3:
      return text.slice(0, end) + text.slice(at);
    case 4: {
      const numbers = [...text.matchAll(/\d+/g)];
      if (numbers.length === 0) return random.pick(vocabulary);
      const { index, 0: digits } = random.pick(numbers);
      return text.slice(0, index) + random.pick(NUMBERS) + text.slice(index + digits.length);
    }
    default: {
      const part = other.toString("utf8");
      const from = random.below(part.length + 1);
      return text.slice(0, at) + part.slice(from, from + random.below(64)) + text.slice(end);
    }
  }
}

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

const JSON_VALUES: readonly Json[] = [
  ...[null, true, false, 0, -1, 0.5, 1e21, 1e308, 2 ** 53, "", "0", "-1", "__proto__", "x".repeat(300)],
  ...[[], {}, [null], { "": null }, [[[[[[[[]]]]]]]]],
];
const POLLUTION = '"__proto__":{"polluted":true},';

/** Values are replaced, removed, doubled and exchanged, `words` among them; now and then its text is changed, too. */
export function jsonMutator(words: readonly string[]): Mutate {
  const values = [...JSON_VALUES, ...words, ...words];
  const mutateText = textMutator(["{", "}", "[", "]", ":", ",", '"', "\\u", "null", POLLUTION, ...words]);
  return (random, input, other) => {
    if (random.chance(0.15)) return mutateText(random, input, other);
    let value = parsed(input);
    for (let left = changes(random); left > 0; left -= 1) value = changedJson(random, value, parsed(other), values);
    const text = JSON.stringify(value);
    return limited(random, Buffer.from(random.chance(0.05) ? polluted(random, text) : text));
  };
}

function parsed(input: Buffer): Json {
  try {
    return JSON.parse(input.toString("utf8")) as Json;
  } catch {
    return {};
  }
}

function polluted(random: Random, text: string): string {
  const braces = [...text.matchAll(/\{(?=")/g)];
  if (braces.length === 0) return text;
  const { index } = random.pick(braces);
  return `${text.slice(0, index + 1)}${POLLUTION}${text.slice(index + 1)}`;
}

/** In place, where it is no scalar. */
function changedJson(random: Random, root: Json, other: Json, values: readonly Json[]): Json {
  const places: (readonly [object: Record<string, Json>, key: string])[] = [];
  collect(root, places);
  if (places.length === 0) return random.pick(values);
  const [object, key] = random.pick(places);
  switch (random.below(6)) {
    case 0:
      if (Array.isArray(object)) object.splice(Number(key), 1);
      else delete object[key];
      break;
    case 1:
      if (Array.isArray(object)) object.push(copy(object[key] ?? null));
      else object[keyOf(random.pick(values))] = copy(object[key] ?? null);
      break;
    case 2: {
      const [from, name] = random.pick(places);
      object[key] = copy(from[name] ?? null);
      break;
    }
    case 3: {
      const taken: (readonly [object: Record<string, Json>, key: string])[] = [];
      collect(other, taken);
      const [from, name] = taken.length === 0 ? [object, key] : random.pick(taken);
      object[key] = copy(from[name] ?? null);
      break;
    }
    default:
      object[key] = copy(random.pick(values));
  }
  return root;
}

function keyOf(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function collect(value: Json, places: (readonly [object: Record<string, Json>, key: string])[]): void {
  if (value === null || typeof value !== "object") return;
  for (const key of Object.keys(value)) {
    places.push([value as Record<string, Json>, key]);
    collect((value as Record<string, Json>)[key] ?? null, places);
  }
}

function copy(value: Json): Json {
  return value !== null && typeof value === "object" ? (JSON.parse(JSON.stringify(value)) as Json) : value;
}

function limited(random: Random, bytes: Buffer): Buffer {
  if (!random.chance(BLOWN_UP) || bytes.length === 0) return bytes.subarray(0, SIZE_LIMIT_BYTES);
  const at = random.below(bytes.length);
  const part = bytes.subarray(at, at + 1 + random.below(random.chance(0.5) ? 4 : 256));
  const times = Math.floor(BLOWN_UP_BYTES / part.length);
  return Buffer.concat([bytes.subarray(0, at), ...Array<Buffer>(times).fill(part), bytes.subarray(at)]);
}
