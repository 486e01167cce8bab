// What a btrfs inside the machine that loses its power looks like before anything may mend it.
import { say, sh } from "./node-in-machine.ts";

/** Where the filesystem on its one device, or its file, ends: by the largest of all superblocks. */
export function endBytesOf(path: string): number {
  const ends = sh(`btrfs inspect-internal dump-super -a ${path} | sed -n 's/^dev_item.total_bytes[[:space:]]*//p'`);
  return Math.max(...ends.trim().split("\n").map(Number));
}

/**
 * Of a chunk that was just allocated the committed block group item may be behind its extents (seen once, on Linux 7.2). The kernel writes
 * that figure only where it thinks it has changed, and has been mistaken before while the item was being made (Linux 6.6, commits
 * 675dfe1223a6 and 2d6cd791e63e): no extent is wrong then. It alone is said, and judged by the records, which are all read; anything else that
 * is found fails, and at the end this does, too.
 */
const BEHIND = /^block group \[\d+ \d+\] used \d+ but extent items used \d+$/;
const FOLLOWS_FROM_IT = "ERROR: errors found in extent allocation tree or chunk allocation";
const NOTHING_FOUND =
  /^(\[\d\/\d\] |(Opening|Checking) filesystem |UUID: |found \d+ bytes used, |total |btree space |file data | ?referenced |$)/;

export function checkBtrfs(path: string, mayBeBehind = false): void {
  try {
    sh(`btrfs check --readonly ${path} 2>&1`);
  } catch (error) {
    const lines = ((error as { stdout?: string }).stdout ?? "").split("\n");
    const behind = lines.filter((line) => BEHIND.test(line));
    const others = lines.filter((line) => !BEHIND.test(line) && line !== FOLLOWS_FROM_IT && !NOTHING_FOUND.test(line));
    if (!mayBeBehind || behind.length === 0 || others.length > 0)
      throw new Error(`btrfs check: ${lines.join("\n")}`, { cause: error });
    for (const line of behind) say(`behind ${line}`);
  }
}
