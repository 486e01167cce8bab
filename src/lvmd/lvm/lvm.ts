// The one place that runs LVM: the configured prefix, the subcommand, lvmd's own --config, and the arguments. It ends well, or
// throws an LvmError with LVM's own words.
import { CommandError, type CommandOptions, type CommandPort, type CommandResult } from "../../process/command-port.ts";
import type { EffectPoint } from "../../process/effects.ts";
import { commandFailure, failureOf, LvmError } from "./lvm-error.ts";

export interface Lvm {
  /** Runs a subcommand that changes something; resolves with its stdout. */
  run(point: EffectPoint, subcommand: string, args: readonly string[]): Promise<string>;
  /** Runs one that only reads. */
  query(subcommand: string, args: readonly string[]): Promise<string>;
}

export interface LvmParts {
  readonly commands: CommandPort;
  /** Read for each command. */
  readonly prefix: () => readonly [`/${string}`, ...string[]];
  readonly limitMs: number;
  /** After each command. */
  readonly ended: (subcommand: string, outcome: "ok" | "failed" | "timed-out", durationMs: number) => void;
}

/** The backup tells lvmd of changes that others make; archives of every change would fill the disk. */
const OWN_CONFIG = ["--config", "backup { backup=1 archive=0 }"] as const;
/** A report of 10,000 volumes has 6 MiB. */
const OUTPUT_LIMIT_BYTES = 64 << 20;
/** LVM repeats itself for each device. */
const SAID_LIMIT_CHARACTERS = 2000;

export function createLvm({ commands, prefix, limitMs, ended }: LvmParts): Lvm {
  const options: CommandOptions = { timeLimitMs: limitMs, withDescendants: true, outputLimitBytes: OUTPUT_LIMIT_BYTES };
  const finish = async (
    subcommand: string,
    args: readonly string[],
    start: (program: `/${string}`, all: readonly string[]) => Promise<CommandResult>,
  ): Promise<string> => {
    const [program, ...first] = prefix();
    const startedMs = performance.now();
    const end = (outcome: "ok" | "failed" | "timed-out"): void =>
      ended(subcommand, outcome, performance.now() - startedMs);
    try {
      const result = await start(program, [...first, subcommand, ...OWN_CONFIG, ...args]);
      end(result.exitCode === 0 ? "ok" : "failed");
      return outputOf([subcommand, ...args].join(" "), result);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      end(error.code === "TimedOut" ? "timed-out" : "failed");
      throw commandFailure(error);
    }
  };
  return {
    run: (point, subcommand, args) =>
      finish(subcommand, args, (program, all) => commands.run(point, program, all, options)),
    query: (subcommand, args) => finish(subcommand, args, (program, all) => commands.query(program, all, options)),
  };
}

function outputOf(command: string, { exitCode, stdout, stderr }: CommandResult): string {
  if (exitCode === 0) return stdout;
  const said = stderr.replace(/^File descriptor .* leaked on .*\n/gm, "").trim() || stdout.trim() || "it said nothing";
  const shown = said
    .split("\n")
    .map((line) => line.trim())
    .join("; ")
    .slice(0, SAID_LIMIT_CHARACTERS);
  throw new LvmError(failureOf(exitCode, said), `"${command}" ended with ${exitCode}: ${shown}`);
}
