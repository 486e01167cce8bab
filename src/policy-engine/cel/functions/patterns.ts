// The patterns of policies: compiled once for each source, and counted for each policy, since ranges of characters are what takes memory.
import { RE2JS } from "re2js";

/** Compiled patterns, shared by their source. */
export interface PatternCache {
  /** Throws what RE2 has against the pattern. */
  compile(source: string): RE2JS;
}

/** What the cache remembers at most, of all policies: some tens of MiB. */
const MAX_CACHED_RANGES = 1_000_000;

/** Forgets what was compiled first when it holds too much; what policies use stays theirs. */
export function createPatternCache(maxRanges = MAX_CACHED_RANGES): PatternCache {
  const compiled = new Map<string, RE2JS>();
  let ranges = 0;
  const forgetFirst = (): void => {
    for (const [source] of compiled) {
      if (ranges <= maxRanges) return;
      compiled.delete(source);
      ranges -= patternRanges(source);
    }
  };
  return {
    compile: (source) => {
      const known = compiled.get(source);
      if (known !== undefined) return known;
      const pattern = RE2JS.compile(source);
      compiled.set(source, pattern);
      ranges += patternRanges(source);
      forgetFirst();
      return pattern;
    },
  };
}

/** What the patterns of one policy hold, while it is compiled. */
export class PolicyPatterns {
  readonly cache: PatternCache;
  readonly #counted = new Set<string>();
  #ranges = 0;

  constructor(cache: PatternCache) {
    this.cache = cache;
  }

  /** Of all its patterns; one that stands in several places counts once. */
  get ranges(): number {
    return this.#ranges;
  }

  count(source: string): void {
    if (this.#counted.has(source)) return;
    this.#counted.add(source);
    this.#ranges += patternRanges(source);
  }
}

// What an RE2 pattern becomes when it is compiled, by its text alone: x{900} is 900 of x, and a class is its ranges. Compiling a large one
// takes seconds and all memory, so its size is checked before. It never throws.

/** One group that is open: what it holds so far, and the size of its last item, to which a repetition belongs. */
interface Level {
  size: number;
  last: number;
}

const TOKEN =
  /\(\?[a-zA-Z-]*\)|\\[pPx](?:\{[^}]*\}|[\s\S])|\\[\s\S]|\[\^?\]?(?:\\.|\[:[^\]]*:\]|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|[\s\S]/gu;

/** Instructions: at least 1 for each character, class or escape. */
export function patternSize(pattern: string): number {
  return sizeOf(pattern, () => 1);
}

/** About as many ranges as the largest Unicode class has, which is \p{C}: 741. */
const UNICODE_CLASS_RANGES = 750;
/** The most ranges that a class of ASCII has, such as \W or [:punct:]. */
const ASCII_CLASS_RANGES = 5;
/** Where case is ignored, a character stands for up to four, such as Greek theta's, and a range of ASCII becomes up to four. */
const CASES = 4;
/** The most that one range becomes where case is ignored, by all of them tried: [\x{13F9}-\x{10594}]. */
const FOLDED_RANGES = 48;

/**
 * Ranges of characters that its classes hold, repetitions counted; a character is one, too. They are what a pattern takes of memory:
 * RE2 copies the ranges of a class into each instruction.
 */
export function patternRanges(pattern: string): number {
  const ignoresCase = /\(\?[a-zA-Z]*i/.test(pattern);
  return sizeOf(pattern, (token) => rangesOf(token, ignoresCase));
}

/** What a class is made of: classes of Unicode, of ASCII, ranges from one character to another, and characters. */
const MEMBER = /\\([pP])(?:\{[^}]*\}|[\s\S])|(\\[dDsSwW]|\[:[^\]]*:\])|CHAR(-CHAR)?/;
const CHAR = /(?:\\x\{[^}]*\}|\\[\s\S]|[\s\S])/;
const ASCII_RANGE = /^[0-9A-Za-z]-[0-9A-Za-z]$/;
const MEMBERS = new RegExp(MEMBER.source.replaceAll("CHAR", CHAR.source), "gu");

function rangesOf(token: string, ignoresCase: boolean): number {
  const cases = ignoresCase ? CASES : 1;
  if (token === ".") return 2;
  const [, negation, members = token] = /^\[(\^?)([\s\S]+)\]$/u.exec(token) ?? [];
  let ranges = negation === "^" ? 1 : 0;
  for (const [member, unicode, ascii, to] of members.matchAll(MEMBERS))
    if (unicode !== undefined) ranges += cases * UNICODE_CLASS_RANGES;
    else if (ascii !== undefined) ranges += cases * ASCII_CLASS_RANGES;
    else if (to !== undefined && ignoresCase && !ASCII_RANGE.test(member)) ranges += FOLDED_RANGES;
    else ranges += cases;
  return ranges;
}

function sizeOf(pattern: string, tokenSize: (token: string) => number): number {
  const levels: [Level, ...Level[]] = [{ size: 0, last: 0 }];
  for (const [token, least, most] of pattern.matchAll(TOKEN)) {
    const level = levels.at(-1) ?? levels[0];
    // Flags such as (?i) do not count as an item: a repetition after them belongs to what is before them.
    if (token.startsWith("(?")) continue;
    if (token === "(") levels.push({ size: 0, last: 0 });
    else if (token === ")" && levels.length > 1) {
      levels.pop();
      append(levels.at(-1) ?? levels[0], 2 + level.size);
    } else if (/^[*+?]$/.test(token)) {
      level.size += 1;
      level.last += 1;
    } else if (least !== undefined) repeat(level, Math.max(Number(least), Number(most || 0), 1));
    else append(level, tokenSize(token));
  }
  return levels.reduce((sum, { size }) => sum + size, 0);
}

function append(level: Level, size: number): void {
  level.size += size;
  level.last = size;
}

function repeat(level: Level, times: number): void {
  level.size += level.last * (times - 1);
  level.last *= times;
}
