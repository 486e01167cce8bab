// The patterns of policies: compiled once for each source, and counted for each policy, since ranges of characters are what takes memory.
import { RE2JS } from "re2js";
import { patternRanges } from "./pattern-size.ts";

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
