// Which of several deaths of a life that failed is the one that makes it fail: halves are lived again, down to a single death.

export interface Culprits<T> {
  /** One; or several that fail together, while either half of them alone does not. */
  readonly points: readonly T[];
  /** How it failed with these alone; with several, as it was found. */
  readonly failure: string;
}

/** `fails` lives once with these points, and says how that failed, or undefined. */
export async function bisect<T>(
  points: readonly T[],
  failure: string,
  fails: (points: readonly T[]) => Promise<string | undefined>,
): Promise<Culprits<T>> {
  if (points.length <= 1) return { points, failure };
  const middle = Math.ceil(points.length / 2);
  for (const half of [points.slice(0, middle), points.slice(middle)]) {
    const again = await fails(half);
    if (again !== undefined) return bisect(half, again, fails);
  }
  return { points, failure };
}

/** For a test's message: both which life failed, and what is left of it. */
export function tellCulprits<T>(
  lived: readonly T[],
  failure: string,
  { points, failure: smallest }: Culprits<T>,
  tell: (point: T) => string,
): string {
  const all = `a life with ${lived.length} deaths (${lived.map(tell).join(", ")}) failed: ${failure}`;
  const [only] = points;
  if (points.length === 1 && only !== undefined) return `${tell(only)}, alone: ${smallest}\n  found in ${all}`;
  return `only together, ${points.map(tell).join(" and ")}: ${smallest}\n  found in ${all}`;
}
