// What changes nothing on a volume: tagging, renaming, activating. Tags first. Requests that arrive while the group is busy are written
// together in their turn: one command of LVM for all volumes that get the same tags.
import { Refusal } from "../../contracts/csi/refusal.ts";
import { classState, findVolume } from "../classes/class-state.ts";
import { activationArguments, refuseTags, refuseVolumeName, tagArguments, WAITING_LIMIT } from "../lvm/lvm.ts";
import { LvmError, refusalOrThrow } from "../lvm/lvm-error.ts";
import { type Report, withTags } from "../lvm/report.ts";
import { letPoolZero } from "../pools/thin-pools.ts";
import { refuseWiped } from "./remove-volume.ts";
import {
  type AskedTags,
  classOf,
  type FoundVolume,
  freshStateOf,
  freshVolumeOf,
  isUnusable,
  refuseAbsent,
  type TagAnswer,
  type TagChange,
  type VolumeHost,
  volumeOf,
  type WaitingTags,
} from "./volume-host.ts";

export async function changeTags(
  host: VolumeHost,
  className: string,
  name: string,
  { add, remove }: TagChange,
): Promise<FoundVolume> {
  const deviceClass = classOf(host, className);
  refuseVolumeName(name);
  refuseTags(add);
  refuseTags(remove);
  const mine: AskedTags = { deviceClass, name, add, remove: remove.filter((tag) => !add.includes(tag)) };
  const waiting = host.waitingTags.get(deviceClass.volumeGroup) ?? waitForTurn(host, deviceClass.volumeGroup);
  if (waiting.asked.length >= WAITING_LIMIT)
    throw new LvmError(
      "Busy",
      `${WAITING_LIMIT} changes of tags wait for their turn in ${deviceClass.volumeGroup} already`,
    );
  waiting.asked.push(mine);
  const answer = (await waiting.answers).get(mine);
  if (answer === undefined || answer instanceof Error) throw answer ?? new Error(`bug: ${name} got no answer`);
  return answer;
}

function waitForTurn(host: VolumeHost, group: string): WaitingTags {
  const asked: AskedTags[] = [];
  const close = (): void => {
    if (host.waitingTags.get(group) === waiting) host.waitingTags.delete(group);
  };
  const answers = host.queues.run(group, () => {
    close(); // who comes from now on waits for the next turn
    return changeAll(host, group, asked);
  });
  const waiting = { asked, answers: answers.finally(close) };
  host.waitingTags.set(group, waiting);
  return waiting;
}

async function changeAll(
  host: VolumeHost,
  group: string,
  all: readonly AskedTags[],
): Promise<ReadonlyMap<AskedTags, TagAnswer>> {
  const answers = new Map<AskedTags, TagAnswer>();
  const alike = new Map<string, { readonly words: readonly string[]; readonly asked: AskedTags[] }>();
  const sharing = sharingReport(host);
  for (const asked of all) {
    // An answer like any other: what is refused of one volume leaves the others their tags.
    const found = await findToTag(sharing, asked).catch(refusalOrThrow);
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

/** With what others of this turn have written on the same volume. One that a report lacks by now was there when it was tagged. */
function afterWrites({ reports }: VolumeHost, asked: AskedTags, found: FoundVolume): FoundVolume {
  const state = classState(reports.latest(), asked.deviceClass);
  if (!isUnusable(state)) {
    const volume = findVolume(state, asked.name);
    if (volume !== undefined) return { state, volume };
  }
  return { ...found, volume: { ...found.volume, tags: withTags(found.volume.tags, asked) } };
}

/** LVM is asked where lvmd knows the volume only from having made it, and before the answer that nothing is to be done. */
async function findToTag(host: VolumeHost, asked: AskedTags): Promise<FoundVolume> {
  const { deviceClass, name } = asked;
  const known = await volumeOf(host, deviceClass, name);
  const isSure = known.volume.uuid !== "" && wordsFor(known, asked).length > 0;
  const found = isSure ? known : await freshVolumeOf(host, deviceClass, name);
  refuseWiped(found.state.group.name, found.volume);
  return found;
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
  asked: readonly AskedTags[],
  answers: Map<AskedTags, TagAnswer>,
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

// Renaming, which changes nothing on a volume: LVM is asked before it and after it.

/** The same call again finds the new name, and is content. */
export async function renameVolume(
  host: VolumeHost,
  className: string,
  name: string,
  newName: string,
): Promise<FoundVolume> {
  const deviceClass = classOf(host, className);
  refuseVolumeName(name);
  refuseVolumeName(newName);
  return host.queues.run(deviceClass.volumeGroup, async () => {
    const state = await freshStateOf(host, deviceClass);
    const present = findVolume(state, newName);
    const source = findVolume(state, name);
    const either = source ?? present;
    if (either !== undefined) refuseWiped(state.group.name, either);
    if (source === undefined)
      return present === undefined ? refuseAbsent(host, state, name) : { state, volume: present };
    if (name !== newName && state.group.volumes.has(newName))
      throw new Refusal("ALREADY_EXISTS", `volume group ${state.group.name} has a volume ${newName} already`);
    if (name !== newName) await host.lvm.run("lvmd-rename/lvrename", "lvrename", [state.group.name, name, newName]);
    return freshVolumeOf(host, deviceClass, newName);
  });
}

// Has LVM activate a volume that is not: after a reboot of a node whose LVM does not do that by itself, or could not.

/** The same call again finds it active, and is content. */
export async function activateVolume(host: VolumeHost, className: string, name: string): Promise<FoundVolume> {
  const deviceClass = classOf(host, className);
  refuseVolumeName(name);
  return host.queues.run(deviceClass.volumeGroup, async () => {
    const found = await freshVolumeOf(host, deviceClass, name);
    const group = found.state.group.name;
    refuseWiped(group, found.volume);
    if (found.volume.device !== undefined) return found;
    await letPoolZero(host, group, found.state.thin?.pool);
    await host.lvm.run("lvmd-activate/lvchange", "lvchange", activationArguments(group, name));
    return freshVolumeOf(host, deviceClass, name);
  });
}
