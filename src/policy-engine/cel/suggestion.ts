// "Did you mean …": the nearest known name.

/** More edits than this and the names have nothing to do with each other. */
const MAX_EDITS = 3;

/** A hint naming the closest of the known names, or listing all of them when none is close. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const names = [...known];
  let best: { name: string; edits: number } | undefined;
  for (const candidate of names) {
    const edits = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (best === undefined || edits < best.edits) best = { name: candidate, edits };
  }
  const tolerance = Math.min(MAX_EDITS, Math.ceil(name.length / 3));
  if (best !== undefined && best.edits <= tolerance) return `did you mean ${best.name}?`;
  return names.length === 0 ? "there are none" : `there are ${names.join(", ")}`;
}

/** Levenshtein's distance, one row at a time. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const replaced = (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
