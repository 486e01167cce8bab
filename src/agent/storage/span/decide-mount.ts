// Which members a span is mounted from, and which device a mounted filesystem has gone on without: pure, from what their superblocks say.
// All that the filesystem has, or none; and never one that was taken out of it, whose superblock a power cut may have left: next to it the
// kernel mounts the rest under another fsid. What is not known does not prove anything.

export interface DeviceIdentity {
  readonly devid: number;
  readonly deviceUUID: string;
  /** The commit that wrote it: all devices of a filesystem have the same, but one that was taken out. */
  readonly generation: number;
  /** Of the whole filesystem. */
  readonly deviceCount: number;
  /** False: the kernel has taken the device out of its filesystem, which leaves all but the magic number. */
  readonly valid: boolean;
}

export interface MountCandidate {
  readonly name: string;
  readonly identity: DeviceIdentity;
}

export type MountDecision =
  | { readonly kind: "mount"; readonly names: readonly string[] }
  | { readonly kind: "refuse"; readonly code: "MembersMissing" | "WrongFilesystem"; readonly message: string };

/** A power cut comes between the writes of one commit's superblocks: never more than one commit lies between two devices. */
const GENERATION_GAP_MAX = 1;

/** `candidates` carry the filesystem's fsid. The newest superblock knows how many devices there are. */
export function decideMount(candidates: readonly MountCandidate[]): MountDecision {
  const generation = Math.max(0, ...candidates.map(({ identity }) => identity.generation));
  const count = candidates.find(({ identity }) => identity.generation === generation)?.identity.deviceCount ?? 0;
  const isNewest = ({ identity }: MountCandidate): boolean => identity.generation === generation;
  const inside = candidates.length > count ? candidates.filter(isNewest) : candidates;
  const here = inside.map(({ name }) => name).join(", ") || "none";
  if (inside.length > count)
    return refuse(
      "WrongFilesystem",
      `take the copy out of the layout: it has ${count} devices, and ${inside.length} members say that they are one of them (${here})`,
    );
  if (inside.length === 0 || inside.length < count)
    return refuse(
      "MembersMissing",
      `bring back the member that the layout does not name or that was wiped: it has ${count} devices, and ${inside.length} of them are here: ${here}`,
    );
  return refusalOfSet(inside, generation) ?? { kind: "mount", names: inside.map(({ name }) => name) };
}

/** As many as there should be, and yet not the filesystem's devices as it left them. */
function refusalOfSet(inside: readonly MountCandidate[], generation: number): MountDecision | undefined {
  for (const [index, { name, identity }] of inside.entries()) {
    const twin = inside.slice(0, index).find((other) => isSameDevice(other.identity, identity));
    if (twin !== undefined)
      return refuse(
        "WrongFilesystem",
        `take the copy out of the layout: members ${twin.name} and ${name} both say that they are device ${identity.devid} (${identity.deviceUUID})`,
      );
  }
  const isBehind = inside.some(({ identity }) => generation - identity.generation > GENERATION_GAP_MAX);
  if (!isBehind) return undefined;
  const commits = inside.map(({ name, identity }) => `${name} ${identity.generation}`).join(", ");
  return refuse(
    "WrongFilesystem",
    `bring back its members as they were used last: they are more than one commit apart (${commits}), so the older one is an earlier copy or missed writes`,
  );
}

function isSameDevice(one: DeviceIdentity, other: DeviceIdentity): boolean {
  return one.deviceUUID === other.deviceUUID || one.devid === other.devid;
}

function refuse(code: Extract<MountDecision, { kind: "refuse" }>["code"], message: string): MountDecision {
  return { kind: "refuse", code, message };
}

export interface MountedDevices {
  /** Of the last commit. */
  readonly generation: number;
  /** As the kernel has them in use. */
  readonly devids: readonly number[];
  readonly isMissingOne: boolean;
  /** What the superblocks of the mounted members say. */
  readonly identities: readonly DeviceIdentity[];
}

/**
 * Whether a device that carries the filesystem's superblock is one that the mounted filesystem has gone on without: the proof that precedes
 * a wipe for which no record of a removal is on this node. Numbers are given again: where that of the device is in use, each of the
 * filesystem's devices has to be here, and to be another one. A copy of one of them, however old, has that one's UUID.
 */
export function isLeftBehind(found: DeviceIdentity, mounted: MountedDevices): boolean {
  if (!(found.generation < mounted.generation)) return false;
  if (!mounted.devids.includes(found.devid)) return true;
  return isWhole(mounted) && mounted.identities.every(({ deviceUUID }) => deviceUUID !== found.deviceUUID);
}

/**
 * Whether the mounted filesystem has gone on without a device that was reported of it: it is whole, and that device is not among its own. A
 * mounted filesystem loses a device only by moving everything off it.
 */
export function hasGoneOnWithout({ deviceUUID }: Pick<DeviceIdentity, "deviceUUID">, mounted: MountedDevices): boolean {
  const { devids, identities } = mounted;
  return devids.length > 0 && isWhole(mounted) && identities.every((identity) => identity.deviceUUID !== deviceUUID);
}

function isWhole({ devids, isMissingOne, identities }: MountedDevices): boolean {
  const isKnown = (devid: number): boolean =>
    identities.filter((identity) => identity.valid && identity.devid === devid).length === 1;
  const agree = identities.every(({ deviceCount }) => deviceCount === devids.length);
  return !isMissingOne && identities.length === devids.length && devids.every(isKnown) && agree;
}
