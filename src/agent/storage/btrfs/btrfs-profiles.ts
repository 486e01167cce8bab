// In which profiles a mounted btrfs keeps its data and metadata, by sysfs, at this moment. Its user may convert them at any time.
import { readdirSync } from "node:fs";
import { join } from "node:path";

export type BlockGroupKind = "data" | "metadata" | "system";

export function allocationDirectory(fsid: string): string {
  return join("/sys/fs/btrfs", fsid, "allocation");
}

/** As sysfs names them; while they are converted there are two. Empty: it has no block group of that kind. */
export function readProfiles(fsid: string, kind: BlockGroupKind): string[] {
  const entries = readdirSync(join(allocationDirectory(fsid), kind), { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

/** Our filesystems begin with these (mkfs.btrfs of one device), and shrinks were proven on no others. */
const SHRINKABLE: Readonly<Record<BlockGroupKind, string>> = { data: "single", metadata: "dup", system: "dup" };

/** Why it is not made smaller, in words; undefined: its profiles are those that shrinks were proven on. */
export function foreignProfile(fsid: string): string | undefined {
  const foreign = Object.entries(SHRINKABLE).flatMap(([kind, expected]) => {
    const others = readProfiles(fsid, kind as BlockGroupKind).filter((name) => name !== expected);
    return others.length === 0 ? [] : [{ kind, expected, found: others.join(" and ") }];
  });
  const [first] = foreign;
  if (first === undefined) return undefined;
  const { kind, expected, found } = first;
  return `its ${kind} has the profile ${found}, and only ${expected} is made smaller; convert it back: btrfs balance start -${kind[0]}convert=${expected}`;
}
