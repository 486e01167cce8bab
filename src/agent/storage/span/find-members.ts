// What a mounted span is made of, for its layout's status: the devices that the kernel has in it, and the members that it has released.
// Reading only.

import { blockSizeBytes } from "../filesystem/devices-and-mounts.ts";
import type { FoundMember, MountedSpan } from "../storage.ts";
import { isHeldBack, preparedDevice, refusalOf } from "./blank-devices.ts";
import { hasGoneOnWithout } from "./decide-mount.ts";
import { type DeviceUsage, identityWithin, readDeviceUsage } from "./device-identity.ts";
import { readMounted } from "./release-members.ts";
import { membersInside, strangeDeviceNames, unreleasedMembers } from "./span-devices.ts";
import { type MemberDevice, readSpanRecord, removalOf, type SpanHost } from "./span-host.ts";

export async function findMembers(host: SpanHost, volume: MountedSpan): Promise<FoundMember[]> {
  const usage = new Map((await readDeviceUsage(host.tools, volume)).map((each) => [each.deviceName, each]));
  const present: FoundMember[] = [];
  for (const each of membersInside(host, volume))
    present.push(await presentMember(host, volume, each, usage.get(each.device.name)));
  const record = readSpanRecord(host, volume);
  const leaving = unreleasedMembers(host, volume)
    .filter((member) => removalOf(record, member) !== undefined || !isHeldBack(host, volume, member))
    .map(({ name }): FoundMember => ({ name, state: "Leaving" }));
  const inside = new Set(present.map(({ name }) => name));
  const released = volume.members.flatMap((member): FoundMember[] => {
    // What the kernel has in use was never given back, whatever is recorded: it was added again.
    const removal = inside.has(member.name) ? undefined : removalOf(record, member);
    return removal?.state === "released" ? [{ name: member.name, state: "Removed", sizeBytes: removal.sizeBytes }] : [];
  });
  const departed = await departedMembers(host, volume);
  const spares = volume.members.flatMap((member): FoundMember[] => {
    const device = member.wanted === "Removed" ? undefined : preparedDevice(host, volume, member);
    if (device === undefined || inside.has(member.name) || removalOf(record, member) !== undefined) return [];
    return [{ name: member.name, state: "Spare", sizeBytes: blockSizeBytes(device) }];
  });
  const going = new Set([...inside, ...[...leaving, ...released].map(({ name }) => name)]);
  const refused = volume.members.flatMap((member): FoundMember[] => {
    const refusal = going.has(member.name) ? undefined : refusalOf(host, volume, member);
    return refusal === undefined ? [] : [{ name: member.name, state: "Refused", ...refusal }];
  });
  const strangers = strangeDeviceNames(host, volume).map((name): FoundMember => ({ name, state: "Stranger" }));
  return [...present, ...spares, ...refused, ...leaving, ...released, ...departed, ...strangers];
}

/**
 * Members that a layout from before their removal names: reported as in the filesystem, and neither in it nor on this node, while it is
 * whole without them. They were given back when they were taken out.
 */
async function departedMembers(host: SpanHost, volume: MountedSpan): Promise<FoundMember[]> {
  const record = readSpanRecord(host, volume);
  const missed = volume.members.filter(
    (member) =>
      member.wanted === "Present" &&
      member.wasInside &&
      member.reported !== undefined &&
      removalOf(record, member) === undefined &&
      host.devices.find(volume.handle, member.name) === undefined,
  );
  if (missed.length === 0) return [];
  const mounted = await readMounted(host, volume);
  const departed = missed.filter(({ reported }) => reported !== undefined && hasGoneOnWithout(reported, mounted));
  return departed.map(({ name }) => ({ name, state: "Removed" }));
}

/** A device keeps its UUID for as long as it is in the filesystem: read once. */
async function presentMember(
  { tools, deviceUUIDs }: SpanHost,
  { handle, fsid }: MountedSpan,
  { member, device }: MemberDevice,
  usage: DeviceUsage | undefined,
): Promise<FoundMember> {
  const key = `${handle}/${member.name}/${usage?.devid}`;
  const deviceUUID = deviceUUIDs.get(key) ?? (await identityWithin(tools, fsid, device))?.deviceUUID;
  if (deviceUUID !== undefined) deviceUUIDs.set(key, deviceUUID);
  return {
    name: member.name,
    state: "Present",
    ...(deviceUUID === undefined ? {} : { deviceUUID }),
    ...(usage === undefined ? {} : usedBy(usage)),
    deviceBytes: blockSizeBytes(device),
  };
}

function usedBy({ devid, sizeBytes, unallocatedBytes }: DeviceUsage) {
  return { devid, sizeBytes, allocatedBytes: sizeBytes - unallocatedBytes };
}
