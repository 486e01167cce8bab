// A parser that reads what others write, as it is fuzzed: what goes in, what it may answer, and what tells that an answer is wrong.
import type { Mutate } from "./mutate.ts";

/** Throws one of the target's refusals, or AssertionError where what was accepted is wrong. Any other throw is a crash. */
export type Take = (input: Buffer) => void | Promise<void>;

export interface Running {
  readonly take: Take;
  readonly end?: () => void | Promise<void>;
}

export interface FuzzTarget {
  readonly name: string;
  /** The files in src that read the input: test/architecture/fuzz.test.ts misses those that no target names. */
  readonly parsers: readonly string[];
  /** Right inputs, and wrong ones worth to begin with. */
  readonly seeds: () => readonly (Buffer | string)[];
  readonly mutate: Mutate;
  /** The names of the errors that say "no" in a way that callers know. */
  readonly refusals: readonly string[];
  /** `directory`: of its own, for parsers that read files. */
  readonly start: (directory: string) => Running | Promise<Running>;
  /** What one input costs, against 1 for the usual: the fast run has so many fewer. */
  readonly cost?: number;
}

/** "No" as a value, where the parser has no error of its own for it. */
export class Refused extends Error {
  override name = "Refused";
}

export function pure(take: Take): FuzzTarget["start"] {
  return () => ({ take });
}

/** A message of gRPC: grpc-js answers what cannot be decoded by itself, whatever error that is. */
export function decoded<T>(decode: (bytes: Uint8Array) => T, bytes: Uint8Array): T {
  try {
    return decode(bytes);
  } catch (error) {
    if (error instanceof RangeError && error.message.includes("call stack")) throw error;
    throw new Refused((error as Error).message);
  }
}
