// An LVM command that could not do what it was asked for, with LVM's own words, and the gRPC status for lvmd's callers.
import { Refusal, type RefusalCode } from "../../contracts/csi/refusal.ts";
import { CommandError, type CommandFailure, type CommandResult } from "../../platform/process/effects/command-port.ts";

type LvmFailure =
  | "Shortage"
  | "NotFound"
  | "Exists"
  | "InUse"
  | "ReadOnly"
  | "DeviceMissing"
  | "Locked"
  | "Refused"
  /** It did not end within its limit and is being left behind. */
  | "TimedOut"
  /** An earlier one has been left behind and has not ended yet. */
  | "Hung"
  | "Busy"
  | "CannotStart"
  | "Unreadable"
  | "Failed";

export class LvmError extends Error {
  override name = "LvmError";
  readonly code: LvmFailure;
  /** Resolves when a command that was left behind has ended after all. */
  readonly gone: Promise<void>;

  constructor(code: LvmFailure, message: string, cause?: unknown, gone: Promise<void> = Promise.resolve()) {
    super(message, { cause });
    this.code = code;
    this.gone = gone;
  }
}

/** A program that could not be run to its end: LVM itself, or another one that lvmd needs. Any other error is given back. */
export function commandFailure(error: unknown): unknown {
  if (!(error instanceof CommandError)) return error;
  return new LvmError(CODE_OF_COMMAND[error.code], error.message, error, error.gone);
}

/** Stdout of a program other than LVM. Throws LvmError. */
export async function toolOutput(name: string, running: Promise<CommandResult>): Promise<string> {
  const { exitCode, stdout, stderr } = await running.catch((error: unknown) => {
    throw commandFailure(error);
  });
  if (exitCode !== 0)
    throw new LvmError("Failed", `${name} ended with ${exitCode}: ${stderr.trim() || "it said nothing"}`);
  return stdout;
}

const CODE_OF_COMMAND: Readonly<Record<CommandFailure, LvmFailure>> = {
  TimedOut: "TimedOut",
  OutputTooLarge: "Unreadable",
  NotFound: "CannotStart",
  Failed: "CannotStart",
};

const CODES: Readonly<Record<LvmFailure, RefusalCode>> = {
  Shortage: "RESOURCE_EXHAUSTED",
  NotFound: "NOT_FOUND",
  Exists: "ALREADY_EXISTS",
  InUse: "FAILED_PRECONDITION",
  ReadOnly: "FAILED_PRECONDITION",
  DeviceMissing: "FAILED_PRECONDITION",
  Locked: "UNAVAILABLE",
  Refused: "INVALID_ARGUMENT",
  TimedOut: "DEADLINE_EXCEEDED",
  Hung: "UNAVAILABLE",
  Busy: "UNAVAILABLE",
  CannotStart: "UNAVAILABLE",
  Unreadable: "INTERNAL",
  Failed: "INTERNAL",
};

export function refusalOfLvmError(error: unknown): Refusal | undefined {
  return error instanceof LvmError ? new Refusal(CODES[error.code], error.message) : undefined;
}

/** In this order: a message of LVM may have lines of several kinds, and the first cause is the one that counts. */
const SAID: readonly (readonly [LvmFailure, RegExp])[] = [
  [
    "DeviceMissing",
    /PVs? (are|is) missing|missing PVs?|missing physical volume|Couldn't find device|partial mode|is partial/i,
  ],
  ["ReadOnly", /read-only|exported|Failed to write (metadata|VG)/i],
  ["Locked", /get lock|locking failed|waiting for lock|can't lock/i],
  ["Shortage", /insufficient|not enough|no free|free space in .*pool|new volumes are not allowed|Maximum number of/i],
  ["Exists", /already exists/i],
  ["InUse", /in use|is used by|open count|mounted/i],
  ["NotFound", /Failed to find logical volume|Volume group .* not found|Logical volume .* not found/i],
];
const INVALID_COMMAND_LINE = 3;

/** What kind of failure LVM speaks of. Pure. */
export function failureOf(exitCode: number, stderr: string): LvmFailure {
  const said = SAID.find(([, pattern]) => pattern.test(stderr));
  return said?.[0] ?? (exitCode === INVALID_COMMAND_LINE ? "Refused" : "Failed");
}

/** The refusal that was caught; throws every other error. */
export function refusalOrThrow(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  throw error;
}

/** Whether this check refuses; throws what else it throws. */
export function refuses(check: () => void): boolean {
  try {
    check();
    return false;
  } catch (error) {
    refusalOrThrow(error);
    return true;
  }
}
