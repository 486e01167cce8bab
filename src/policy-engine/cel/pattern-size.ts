// About how many instructions an RE2 pattern becomes, told from its text alone: x{900} is 900 of x. Compiling a large one takes
// seconds and all memory, so this is asked before. It knows no more of the syntax than it needs, and never throws.

/** One group that is open: what it holds so far, and the size of its last item, to which a repetition belongs. */
interface Level {
  size: number;
  last: number;
}

const TOKEN = /\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|[\s\S]/gu;

/** At least 1 for each character, class or escape; an upper bound for all but classes of many scripts. */
export function patternSize(pattern: string): number {
  const levels: [Level, ...Level[]] = [{ size: 0, last: 0 }];
  for (const [token, least, most] of pattern.matchAll(TOKEN)) {
    const level = levels.at(-1) ?? levels[0];
    if (token === "(") levels.push({ size: 0, last: 0 });
    else if (token === ")" && levels.length > 1) {
      levels.pop();
      append(levels.at(-1) ?? levels[0], 2 + level.size);
    } else if (least !== undefined) repeat(level, Math.max(Number(least), Number(most || 0), 1));
    else append(level, 1);
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
