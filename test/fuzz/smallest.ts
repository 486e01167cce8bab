// The smallest input that still fails: parts of it are left out, large ones first, as long as that goes on failing.
import type { Failure } from "./run-target.ts";

/** Of CPU: a machine with much else to do finds the same. */
const LIMIT_MS = 10_000;

export interface Found {
  readonly input: Buffer;
  /** Of this input; undefined: it did not fail again. */
  readonly failure: Failure | undefined;
}

/** `failureOf`: undefined where an input does not fail in the same way. */
export async function smallest(
  input: Buffer,
  failureOf: (candidate: Buffer) => Promise<Failure | undefined>,
): Promise<Found> {
  const before = process.cpuUsage();
  const isTime = (): boolean => process.cpuUsage(before).user < LIMIT_MS * 1000;
  let found: Found = { input, failure: await failureOf(input) };
  for (let size = Math.ceil(input.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < found.input.length && isTime(); ) {
      const candidate = Buffer.concat([found.input.subarray(0, at), found.input.subarray(at + size)]);
      const failure = await failureOf(candidate);
      if (failure === undefined) at += size;
      else found = { input: candidate, failure };
    }
  }
  return found;
}
