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

/** `candidates` carry the filesystem's fsid. The newest superblock knows how many devices there are. */
export function decideMount(candidates: readonly MountCandidate[]): MountDecision {
  const generation = Math.max(0, ...candidates.map(({ identity }) => identity.generation));
  const count = candidates.find(({ identity }) => identity.generation === generation)?.identity.deviceCount ?? 0;
  const isNewest = ({ identity }: MountCandidate): boolean => identity.generation === generation;
  const inside = candidates.length > count ? candidates.filter(isNewest) : candidates;
  const here = inside.map(({ name }) => name).join(", ") || "none";
  if (inside.length > 0 && inside.length === count) return { kind: "mount", names: inside.map(({ name }) => name) };
  if (inside.length > count)
    return {
      kind: "refuse",
      code: "WrongFilesystem",
      message:
        `it has ${count} devices, and ${inside.length} members say that they are one of them (${here}): one is a copy of another; ` +
        "take the copy out of the layout",
    };
  return {
    kind: "refuse",
    code: "MembersMissing",
    message:
      `it has ${count} devices, and ${inside.length} of them are here: ${here}; it is never mounted without one of them. Bring ` +
      "the member back that the layout does not name or that was wiped",
  };
}
