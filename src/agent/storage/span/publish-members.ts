// Members' devices, brought to this node by their drivers for a filesystem that is not mounted, or for a member that is not in it yet.
// What is at a member's path from before, a reboot perhaps, is never taken for its device.
import type { BlockDevice } from "../../member-drivers/block-device.ts";
import type { SpanMember } from "../../member-drivers/span-member.ts";
import { probe, waitForExclusive } from "../block/probe-device.ts";
import { type SpanVolume, StorageError } from "../storage.ts";
import { type MemberDevice, mountedDeviceNames, reachableMembers } from "./span-devices.ts";
import type { SpanHost } from "./span-host.ts";
import { unlessStopped } from "./unless-stopped.ts";

/** Drivers are asked for so many members at a time; a span has fewer. */
const CONCURRENCY = 8;

/**
 * All at once, in the order of `members`: a stage waits for the slowest driver, not for their sum. Whatever fails, nobody is at work on
 * any of them any more when it throws, and what has been published stays so.
 */
export async function publishAll(
  host: SpanHost,
  volume: SpanVolume,
  members: readonly SpanMember[],
): Promise<MemberDevice[]> {
  // First all of them: what an old path leads to by now may be the device of another one.
  await forAll(members, (member) => giveBackLeft(host, volume, member));
  return forAll(members, async (member) => ({ member, device: await publish(host, volume, member) }));
}

/**
 * Of a member that is in no mounted filesystem. What an earlier stage or extend has left of it is given back first. The signal ends only a
 * wait for its driver.
 */
export async function publishAnew(
  host: SpanHost,
  volume: SpanVolume,
  member: SpanMember,
  signal?: AbortSignal,
): Promise<BlockDevice> {
  await giveBackLeft(host, volume, member, signal);
  return publish(host, volume, member, signal);
}

async function publish(
  host: SpanHost,
  volume: SpanVolume,
  member: SpanMember,
  signal?: AbortSignal,
): Promise<BlockDevice> {
  const device = await unlessStopped(host.devices.publish(volume.handle, member, signal), signal);
  await waitForExclusive(volume, device.path);
  return device;
}

/** Throws what has failed, by member, once all have ended. */
async function forAll<T>(members: readonly SpanMember[], work: (member: SpanMember) => Promise<T>): Promise<T[]> {
  const ended: PromiseSettledResult<T>[] = [];
  const waiting = [...members.entries()];
  const takeNext = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [index, member] = next;
      [ended[index]] = await Promise.allSettled([work(member)]);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, takeNext));
  const failures = members.flatMap(({ name }, index) => {
    const outcome = ended[index];
    return outcome?.status === "rejected" ? [{ name, reason: outcome.reason as unknown }] : [];
  });
  if (failures.length > 0) throw failureOf(failures);
  return ended.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
}

/** What does not mend by itself goes first. */
function failureOf(failures: readonly { readonly name: string; readonly reason: unknown }[]): unknown {
  const errors: StorageError[] = [];
  for (const { reason } of failures)
    if (reason instanceof StorageError) errors.push(reason);
    else return reason;
  const worst = errors.find(({ code }) => code !== "WaitingForMember") ?? errors[0];
  const said = failures.map(({ name }, index) => `member ${name}: ${errors[index]?.said}`);
  return new StorageError(worst?.code ?? "CommandFailed", said.join("; "), worst);
}

async function giveBackLeft(
  host: SpanHost,
  volume: SpanVolume,
  member: SpanMember,
  signal?: AbortSignal,
): Promise<void> {
  const here = reachableMembers(host, volume);
  const left = here.find((each) => each.member.name === member.name);
  const mounted = mountedDeviceNames(volume.fsid);
  const others = new Set(here.filter((each) => each !== left).map(({ device }) => device.name));
  // Mounted, here or elsewhere on this node: what it may be made of is not taken away from under it. The wait for its device tells who
  // has it. A disk that has vanished has no name: it may be any of those that are no other member's.
  if (left === undefined ? mounted.some((name) => !others.has(name)) : mounted.includes(left.device.name)) return;
  if (left !== undefined && !(await isForeign(host, volume, left.device))) {
    // A dead agent's mkfs may still have it.
    await waitForExclusive(volume, left.device.path);
    await host.tools.run("span/forget-device", "btrfs", ["device", "scan", "--forget", left.device.path]);
  }
  await unlessStopped(host.devices.unpublish(volume.handle, member, signal), signal);
}

/** By now the path leads to somebody else's disk, or to one that does not answer: nobody's business here. */
async function isForeign({ tools }: SpanHost, volume: SpanVolume, { path }: BlockDevice): Promise<boolean> {
  try {
    return (await probe(tools, volume, path)).some(({ uuid }) => uuid !== volume.fsid);
  } catch {
    return true;
  }
}
