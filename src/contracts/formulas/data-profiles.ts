// In which profiles a btrfs keeps its data, as one number, and what statfs makes of them: it divides the devices' bytes by the copies of
// one profile. So a filesystem of 4 GiB whose user has converted its data to DUP shows 2 GiB.

/** In the kernel's order (fs/btrfs/volumes.h, enum btrfs_raid_types): where there are several, statfs counts the last. */
const PROFILES = [
  { name: "single", copies: 1 },
  { name: "raid0", copies: 1 },
  { name: "raid1", copies: 2 },
  { name: "dup", copies: 2 },
  { name: "raid10", copies: 2 },
  { name: "raid5", copies: 1 },
  { name: "raid6", copies: 1 },
  { name: "raid1c3", copies: 3 },
  { name: "raid1c4", copies: 4 },
] as const;

/** Bit i: PROFILES[i]. An agent of an earlier version, and another filesystem, report no bit. */
export const NO_DATA_PROFILES = 0;

/** Of the profiles that have these names; others are not profiles. */
export function dataProfilesOf(names: readonly string[]): number {
  return PROFILES.reduce((bits, { name }, index) => (names.includes(name) ? bits | (1 << index) : bits), 0);
}

/** How many bytes of the devices statfs counts as one. */
export function copiesOf(dataProfiles: number): number {
  const last = PROFILES.findLast((_profile, index) => (dataProfiles & (1 << index)) !== 0);
  return last?.copies ?? 1;
}

/** Whether each byte is stored once, on one device: what a filesystem of ours begins with. */
export function isPlain(dataProfiles: number): boolean {
  return (dataProfiles & ~dataProfilesOf(["single"])) === 0;
}

/** "dup", "single and raid1": as btrfs(8) calls them. */
export function describeProfiles(dataProfiles: number): string {
  return PROFILES.filter((_profile, index) => (dataProfiles & (1 << index)) !== 0)
    .map(({ name }) => name)
    .join(" and ");
}
