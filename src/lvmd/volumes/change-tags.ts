// Tagging, which changes nothing on a volume. What is asked for while the group is busy is written together when its turn comes, by one
// command of LVM for all volumes that get the same.
import { Refusal } from "../../csi/refusal.ts";
import { classState, findVolume } from "../classes/class-state.ts";
import { tagArguments } from "../lvm/arguments.ts";
import { WAITING_LIMIT } from "../lvm/group-lanes.ts";
import { LvmError } from "../lvm/lvm-error.ts";
import { refuseTags, refuseVolumeName } from "../lvm/lvm-names.ts";
import { withTags } from "../lvm/own-change.ts";
import type { Report } from "../lvm/report.ts";
import type { DeviceClass } from "../settings/settings.ts";
import { classOf, type FoundVolume, freshVolumeOf, isUnusable, type VolumeHost, volumeOf } from "./volume-host.ts";
import { refuseWiped } from "./wipe-mark.ts";

export interface TagChange {
  readonly add: readonly string[];
  /** What is added, too, stays. */
  readonly remove: readonly string[];
}

interface Asked extends TagChange {
  readonly deviceClass: DeviceClass;
  readonly name: string;
}

type Answer = FoundVolume | Refusal | LvmError;

/** Those that wait for the turn of their volume group. */
export interface WaitingTags {
  readonly asked: Asked[];
  readonly answers: Promise<ReadonlyMap<Asked, Answer>>;
}

export async function changeTags(
  host: VolumeHost,
  className: string,
  name: string,
  { add, remove }: TagChange,
): Promise<FoundVolume | Refusal> {
  const deviceClass = classOf(host, className);
  if (deviceClass instanceof Refusal) return deviceClass;
  const refusal = refuseVolumeName(name) ?? refuseTags(add) ?? refuseTags(remove);
  if (refusal !== undefined) return refusal;
  const mine: Asked = { deviceClass, name, add, remove: remove.filter((tag) => !add.includes(tag)) };
  const waiting = host.waitingTags.get(deviceClass.volumeGroup) ?? waitForTurn(host, deviceClass.volumeGroup);
  if (waiting.asked.length >= WAITING_LIMIT)
    throw new LvmError(
      "Busy",
      `${WAITING_LIMIT} changes of tags wait for their turn in ${deviceClass.volumeGroup} already`,
    );
  waiting.asked.push(mine);
  const answer = (await waiting.answers).get(mine);
  if (answer === undefined || answer instanceof LvmError) throw answer ?? new Error(`bug: ${name} got no answer`);
  return answer;
}

function waitForTurn(host: VolumeHost, group: string): WaitingTags {
  const asked: Asked[] = [];
  const close = (): void => {
    if (host.waitingTags.get(group) === waiting) host.waitingTags.delete(group);
  };
  const answers = host.lanes.run(group, () => {
    close(); // who comes from now on waits for the next turn
    return changeAll(host, group, asked);
  });
  const waiting = { asked, answers: answers.finally(close) };
  host.waitingTags.set(group, waiting);
  return waiting;
}

async function changeAll(host: VolumeHost, group: string, all: readonly Asked[]): Promise<ReadonlyMap<Asked, Answer>> {
  const answers = new Map<Asked, Answer>();
  const alike = new Map<string, { readonly words: readonly string[]; readonly asked: Asked[] }>();
  const sharing = sharingReport(host);
  for (const asked of all) {
    const found = await findToTag(sharing, asked);
    answers.set(asked, found);
    if (found instanceof Refusal) continue;
    const words = wordsFor(found, asked);
    if (words.length === 0) continue;
    const key = JSON.stringify(words);
    const same = alike.get(key) ?? { words, asked: [] };
    alike.set(key, same);
    same.asked.push(asked);
  }
  for (const { words, asked } of alike.values()) await write(host, group, words, asked, answers);
  for (const [asked, answer] of answers) if ("volume" in answer) answers.set(asked, afterWrites(host, asked, answer));
  return answers;
}

/** What is begun in a turn is begun after each of its callers has asked: one report answers all of them. */
function sharingReport(host: VolumeHost): VolumeHost {
  let shared: Promise<Report> | undefined;
  return { ...host, reports: { ...host.reports, fresh: () => (shared ??= host.reports.fresh()) } };
}

/** With what others of this turn have written on the same volume. One that a report lacks meanwhile was there when it was tagged. */
function afterWrites({ reports }: VolumeHost, asked: Asked, found: FoundVolume): FoundVolume {
  const state = classState(reports.latest(), asked.deviceClass);
  if (!isUnusable(state)) {
    const volume = findVolume(state, asked.name);
    if (volume !== undefined) return { state, volume };
  }
  return { ...found, volume: { ...found.volume, tags: withTags(found.volume.tags, asked) } };
}

/** LVM is asked where lvmd knows the volume only from having made it, and before anybody is told that nothing is to be done. */
async function findToTag(host: VolumeHost, asked: Asked): Promise<FoundVolume | Refusal> {
  const { deviceClass, name } = asked;
  const known = await volumeOf(host, deviceClass, name);
  if (known instanceof Refusal) return known;
  const isSure = known.volume.uuid !== "" && wordsFor(known, asked).length > 0;
  const found = isSure ? known : await freshVolumeOf(host, deviceClass, name);
  if (found instanceof Refusal) return found;
  return refuseWiped(found.state.group.name, found.volume) ?? found;
}

function wordsFor({ volume: { tags } }: FoundVolume, { add, remove }: TagChange): string[] {
  return [
    ...tagArguments(
      "--addtag",
      add.filter((tag) => !tags.includes(tag)),
    ),
    ...tagArguments(
      "--deltag",
      remove.filter((tag) => tags.includes(tag)),
    ),
  ];
}

/** What is wrong with one volume keeps no other from its tags: they are tried one by one then. A command that hangs stops them all. */
async function write(
  host: VolumeHost,
  group: string,
  words: readonly string[],
  asked: readonly Asked[],
  answers: Map<Asked, Answer>,
): Promise<void> {
  try {
    const names = asked.map(({ name }) => `${group}/${name}`);
    await host.lvm.run("lvmd-tags/lvchange", "lvchange", [...words, ...names]);
  } catch (error) {
    if (!(error instanceof LvmError) || error.code === "TimedOut") throw error;
    for (const one of asked) {
      if (asked.length === 1) answers.set(one, error);
      else await write(host, group, words, [one], answers);
    }
    return;
  }
  for (const { name, add, remove } of asked) host.reports.note({ kind: "Tagged", group, name, add, remove });
}
