// The one place that runs LVM: its queues, and the arguments of its commands as TopoLVM gives them, with the names and tags that LVM takes.
// A command is the configured prefix, the subcommand, lvmd's own --config, and the arguments. It ends well, or throws an LvmError with
// LVM's own words.

import { invalidArgument } from "../../contracts/csi/refusal.ts";
import { WIPE_BEGUN_TAG } from "../../contracts/names.ts";
import { shortened } from "../../contracts/printable.ts";
import { createKeyedQueue, QueueFullError } from "../../platform/process/async/keyed-queue.ts";
import {
  CommandError,
  type CommandOptions,
  type CommandPort,
  type CommandResult,
} from "../../platform/process/effects/command-port.ts";
import type { EffectPoint } from "../../platform/process/effects/effects.ts";
import type { DeviceClass } from "../settings/settings.ts";
import { commandFailure, failureOf, LvmError } from "./lvm-error.ts";

export interface Lvm {
  /** Runs a subcommand that changes something; resolves with its stdout. */
  run(point: EffectPoint, subcommand: string, args: readonly string[]): Promise<string>;
  /** Runs one that only reads. */
  query(subcommand: string, args: readonly string[]): Promise<string>;
}

interface LvmParts {
  readonly commands: CommandPort;
  /** Read for each command. */
  readonly prefix: () => readonly [`/${string}`, ...string[]];
  readonly limitMs: number;
  /** After each command. */
  readonly ended: (subcommand: string, outcome: "ok" | "failed" | "timed-out", durationMs: number) => void;
}

/** The backup shows lvmd what other programs change; archives of every change would fill the disk. */
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
  const lines = said.split("\n").map((line) => line.trim());
  const shown = shortened(lines.join("; "), SAID_LIMIT_CHARACTERS);
  throw new LvmError(failureOf(exitCode, said), `"${command}" ended with ${exitCode}: ${shown}`);
}

// One change at a time for each volume group, in the order in which they were asked for. A command that hangs stops its queue: nothing
// is begun behind it until it has ended, so that nothing piles up.

export interface GroupQueues {
  /** Throws LvmError Busy where too many wait, and Hung behind a command that was left behind. */
  run<T>(key: string, work: () => Promise<T>): Promise<T>;
  /** Whether anything runs or waits in any queue. */
  isBusy(): boolean;
}

/** Of the calls that wait for the turn of one group. */
export const WAITING_LIMIT = 512;

export function createGroupQueues(): GroupQueues {
  const queue = createKeyedQueue(WAITING_LIMIT);
  /** What was left behind and has not ended, by key. */
  const hung = new Map<string, string>();
  const take = async <T>(key: string, work: () => Promise<T>): Promise<T> => {
    const leftBehind = hung.get(key);
    if (leftBehind !== undefined)
      throw new LvmError("Hung", `nothing is done in ${key} before this has ended: ${leftBehind}`);
    try {
      return await work();
    } catch (error) {
      if (error instanceof LvmError && error.code === "TimedOut") {
        hung.set(key, error.message);
        void error.gone.then(() => hung.delete(key));
      }
      throw error;
    }
  };
  return {
    isBusy: () => queue.isBusy(),
    run: (key, work) =>
      queue
        .run(key, () => take(key, work))
        .catch((error: unknown) => {
          throw error instanceof QueueFullError ? new LvmError("Busy", error.message, error) : error;
        }),
  };
}

interface NewVolume {
  readonly name: string;
  readonly sizeBytes: number;
  readonly tags: readonly string[];
  /** Of an option class: they replace the class' stripes and options. */
  readonly options: readonly string[] | undefined;
}

/** Signatures that an earlier volume has left at this place are wiped (-W y), without a question (-y). */
export function createArguments(deviceClass: DeviceClass, { name, sizeBytes, tags, options }: NewVolume): string[] {
  const { volumeGroup, thinPool, stripe, stripeSize, lvcreateOptions } = deviceClass;
  const size = `${sizeBytes}b`;
  const striped = options === undefined && stripe !== undefined;
  return [
    ...(thinPool === undefined
      ? ["-n", name, "-L", size]
      : ["-T", `${volumeGroup}/${thinPool.name}`, "-n", name, "-V", size]),
    ...["-W", "y", "-y"],
    ...tagArguments("--addtag", tags),
    ...(striped ? ["-i", String(stripe)] : []),
    ...(striped && stripeSize !== undefined ? ["-I", stripeSize] : []),
    ...(options ?? lvcreateOptions),
    ...(thinPool === undefined ? [volumeGroup] : []),
  ];
}

/** Of a thin volume; activated with all others (-k n). */
export function snapshotArguments(group: string, source: string, name: string, tags: readonly string[]): string[] {
  return ["-s", "-k", "n", "-n", name, `${group}/${source}`, ...tagArguments("--addtag", tags)];
}

/** Also of one that LVM is to skip (-K), as it skips thin snapshots that others have made. */
export function activationArguments(group: string, name: string): string[] {
  return ["-a", "y", "-K", `${group}/${name}`];
}

export function resizeArguments(group: string, name: string, sizeBytes: number): string[] {
  return ["-L", `${sizeBytes}b`, `${group}/${name}`];
}

/** Data may be lost, without a question: the caller has proved that nothing is beyond. `ignoresFilesystem`: from 2.03.17. */
export function reduceArguments(group: string, name: string, sizeBytes: number, ignoresFilesystem: boolean): string[] {
  return ["-f", "-y", ...(ignoresFilesystem ? ["--fs", "ignore"] : []), "-L", `${sizeBytes}b`, `${group}/${name}`];
}

export function tagArguments(flag: "--addtag" | "--deltag", tags: readonly string[]): string[] {
  return tags.flatMap((tag) => [flag, tag]);
}

// Names and tags by lvm(8), "VALID NAMES" and "TAGS": refused here, before LVM reads one as an option.

const NAME_LIMIT_CHARACTERS = 127;
const TAG_LIMIT_CHARACTERS = 1024;
const SHOWN_LIMIT_CHARACTERS = 64;

/** Never begins with "-": LVM would take it for an option. */
export const LVM_NAME = /^(?!\.\.?$)[A-Za-z0-9+_.][A-Za-z0-9+_.-]{0,126}$/;
const TAG = /^[A-Za-z0-9_+.][A-Za-z0-9_+.\-/=!:&#]*$/;
/** LVM keeps them for itself. */
const RESERVED =
  /^(snapshot|pvmove)|_(cdata|cmeta|corig|imeta|iorig|mimage|mlog|pmspare|rimage|rmeta|tdata|tmeta|vdata|vorigin)/;

/** Throws a Refusal, INVALID_ARGUMENT, of what can be no volume's name. */
export function refuseVolumeName(name: string): void {
  if (!LVM_NAME.test(name))
    throw invalidArgument(
      `${shown(name)} is not a name for a volume: 1 to ${NAME_LIMIT_CHARACTERS} letters, digits and + _ . -, no "-" first`,
    );
  if (RESERVED.test(name)) throw invalidArgument(`${shown(name)} is not a name for a volume: LVM reserves it`);
}

/** The same of tags. */
export function refuseTags(tags: readonly string[]): void {
  if (tags.includes(WIPE_BEGUN_TAG)) throw invalidArgument(`the tag ${WIPE_BEGUN_TAG} is lvmd's own`);
  const wrong = tags.find((tag) => tag.length > TAG_LIMIT_CHARACTERS || !TAG.test(tag));
  if (wrong === undefined) return;
  throw invalidArgument(
    `${shown(wrong)} is not a tag: 1 to ${TAG_LIMIT_CHARACTERS} letters, digits and _ + . - / = ! : & #, no "-" first`,
  );
}

function shown(text: string): string {
  return JSON.stringify(shortened(text, SHOWN_LIMIT_CHARACTERS));
}
