// What every benchmark is: it says in words what it does, and returns the figures that are compared over time.

export type Say = (line: string) => void;
export type Benchmark = (say: Say) => Promise<Readonly<Record<string, unknown>>>;

/** The smallest value that at least `ratio` of the values do not exceed; NaN of none. */
export function quantile(values: readonly number[], ratio: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(ratio * sorted.length) - 1)] ?? Number.NaN;
}

export function round(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}

/** A whole number from the environment, such as RUNS=100; the default when it is not set. */
export function settingFromEnvironment(name: string, byDefault: number): number {
  const text = process.env[name];
  if (text === undefined || text === "") return byDefault;
  if (!/^[1-9]\d*$/.test(text)) throw new Error(`${name}=${text} is not a whole number over 0`);
  return Number(text);
}
