// Which members a span is mounted from: pure, from what their superblocks say. All that the filesystem has, or none; and never one
// that was taken out of it, whose superblock a power cut may have left: beside it the kernel mounts the rest under another fsid.
import type { DeviceIdentity } from "./device-identity.ts";

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
      `it has ${count} devices, and ${inside.length} members say that they are one of them (${here}): one is a copy of another; ` +
        "take the copy out of the layout",
    );
  if (inside.length === 0 || inside.length < count)
    return refuse(
      "MembersMissing",
      `it has ${count} devices, and ${inside.length} of them are here: ${here}; it is never mounted without one of them. Bring ` +
        "the member back that the layout does not name or that was wiped",
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
        `members ${twin.name} and ${name} both say that they are device ${identity.devid} (${identity.deviceUUID}): one is a copy of the ` +
          "other; take the copy out of the layout",
      );
  }
  const isBehind = inside.some(({ identity }) => generation - identity.generation > GENERATION_GAP_MAX);
  if (!isBehind) return undefined;
  const commits = inside.map(({ name, identity }) => `${name} ${identity.generation}`).join(", ");
  return refuse(
    "WrongFilesystem",
    `its members are more than one commit apart (${commits}): the older one is an earlier copy of itself, or was not written to for ` +
      "a while. Bring back the members as they were used last; what was written since is not on an older one",
  );
}

function isSameDevice(one: DeviceIdentity, other: DeviceIdentity): boolean {
  return one.deviceUUID === other.deviceUUID || one.devid === other.devid;
}

function refuse(code: Extract<MountDecision, { kind: "refuse" }>["code"], message: string): MountDecision {
  return { kind: "refuse", code, message };
}
