// The volume that a reduction is of: one of the classes' own, found by LVM's UUID, in a report that nothing of a former lvmd can make
// untrue.
import { Refusal } from "../../../contracts/csi/refusal.ts";
import { isBegunHere, runningCommands } from "../../../platform/process/effects/command-port.ts";
import { type ClassState, classState } from "../../classes/class-state.ts";
import { kernelPathOf } from "../../devices.ts";
import { LvmError } from "../../lvm/lvm-error.ts";
import type { ReportedVolume } from "../../lvm/report.ts";
import { BLKDISCARD } from "../remove-volume.ts";
import { isUnusable, latestReport, type VolumeHost } from "../volume-host.ts";

export interface Found {
  readonly state: ClassState;
  readonly volume: ReportedVolume;
}

export async function groupOf(host: VolumeHost, volumeUUID: string): Promise<string | undefined> {
  await latestReport(host);
  return (find(host, volumeUUID) ?? (await findFresh(host, volumeUUID)))?.state.group.name;
}

/** By a report that was begun now; what a former lvmd has left running would not be in it. */
export async function findFresh(host: VolumeHost, volumeUUID: string): Promise<Found | undefined> {
  const known = find(host, volumeUUID);
  const leftover = known && (await findLeftover(known));
  if (leftover !== undefined)
    throw new LvmError("Hung", `a command of a former lvmd is still running (${leftover}); retry when it has ended`);
  await host.reports.fresh();
  return find(host, volumeUUID);
}

/** Of an active device the number stays its own for as long as something is written to it. */
async function findLeftover({ state, volume }: Found): Promise<string | undefined> {
  const kernelPath = volume.device && (await kernelPathOf(volume.device));
  return (
    (await findLeftoverReduce(state.group.name, volume.name)) ??
    (kernelPath === undefined ? undefined : findLeftoverClearing(kernelPath))
  );
}

function find({ settings, reports }: VolumeHost, volumeUUID: string): Found | undefined {
  for (const deviceClass of settings().deviceClasses) {
    const state = classState(reports.latest(), deviceClass);
    if (isUnusable(state)) continue;
    for (const volume of state.group.volumes.values())
      if (volume.uuid === volumeUUID && volume.pool === (state.thin?.pool.name ?? "")) return { state, volume };
  }
  return undefined;
}

export function noVolume(host: VolumeHost, volumeUUID: string): Refusal {
  const place = placeOf(host, volumeUUID);
  if (place === undefined) return new Refusal("NOT_FOUND", `no device class has a volume with the UUID ${volumeUUID}`);
  return new Refusal("FAILED_PRECONDITION", `volume ${place} is of no device class: point its class at it`);
}

/** Of a volume that no class points at. */
export function placeOf({ reports }: VolumeHost, volumeUUID: string): string | undefined {
  for (const group of reports.latest()?.values() ?? [])
    for (const { name, uuid } of group.volumes.values()) if (uuid === volumeUUID) return `${group.name}/${name}`;
  return undefined;
}

// Commands that a former lvmd has begun and that still run: what such a one may yet do is not in any report.

const LVREDUCE = "lvreduce";

/** The command line of a process that is about to make this volume smaller; undefined: there is none. */
function findLeftoverReduce(group: string, name: string): Promise<string | undefined> {
  return findCommand(({ words }) => words.includes(LVREDUCE) && words.includes(`${group}/${name}`));
}

/** Of one that still zeroes or discards what was to be cut off this device, by the kernel's path of it. */
function findLeftoverClearing(kernelPath: string): Promise<string | undefined> {
  return findCommand(({ words }) => words.includes(BLKDISCARD) && words.includes(kernelPath));
}

/** Of one of both on whatever volume that an lvmd has begun, and not this one. */
export function findLeftoverOfAny(): Promise<string | undefined> {
  return findCommand(({ pid, words }) => isAsLvmdWritesIt(words) && !isBegunHere(pid));
}

/**
 * With the options that each lvmd gives, and something to work on: what a person has typed, or a command line that only mentions it, does
 * not count.
 */
function isAsLvmdWritesIt(words: readonly string[]): boolean {
  const behind = (command: string): readonly string[] => words.slice(words.indexOf(command) + 1 || words.length);
  const [reducing, clearing] = [behind(LVREDUCE), behind(BLKDISCARD)];
  return (
    (reducing.includes("--config") && reducing.some(isPlace)) ||
    (clearing.includes("--length") && clearing.some(isPlace))
  );
}

function isPlace(word: string): boolean {
  return word.includes("/");
}

interface ReadCommand {
  readonly pid: string;
  readonly words: readonly string[];
}

/** Throws Hung where one cannot be read: it may be it. */
async function findCommand(isSought: (running: ReadCommand) => boolean): Promise<string | undefined> {
  for await (const { pid, words } of runningCommands()) {
    if (words === undefined)
      throw new LvmError("Hung", `what process ${pid} does cannot be read; see dmesg on the node`);
    if (isSought({ pid, words })) return `${words.join(" ").trim()} (process ${pid})`;
  }
  return undefined;
}
