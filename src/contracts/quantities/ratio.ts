// Ratios are 0..1 inside the code; percent exists only in the API and in messages.

const PERCENT = /^(\d+(?:\.\d+)?)%$/;

/** A percentage that cannot be read; the message names the text. */
export class PercentError extends Error {
  override name = "PercentError";
}

/** The ratio of a percentage: "60%" → 0.6. Throws PercentError. */
export function parsePercent(text: string): number {
  const ratio = Number(PERCENT.exec(text)?.[1] ?? Number.NaN) / 100;
  // Of more than 300 digits it would be infinite.
  if (!Number.isFinite(ratio)) throw new PercentError(`"${text.slice(0, 64)}" is not a percentage such as 60%`);
  return ratio;
}

/** A ratio for people: 0.8 → "80%", 0.8137 → "81.4%". */
export function formatPercent(ratio: number): string {
  const percent = ratio * 100;
  return `${Number.isInteger(percent) ? percent : Number(percent.toFixed(1))}%`;
}
