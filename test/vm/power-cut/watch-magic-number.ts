// Says when the kernel clears the magic number of a member that it takes out: from then on the member cannot be mounted, and whether the
// filesystem has gone on without it is not on the disks yet.
import { closeSync, existsSync, openSync, readSync } from "node:fs";
import type { SpanMember } from "../../../src/agent/member-drivers/span-member.ts";
import { say } from "./node-in-machine.ts";
import { fileOf } from "./span-layout.ts";

const MAGIC = Buffer.from("_BHRfS_M");
/** In the first superblock. */
const MAGIC_OFFSET = 65_536 + 64;
const INTERVAL_MS = 1;

/** Until what it returns is called. */
export function watchMagicNumber(members: readonly SpanMember[]): () => void {
  const watched = new Set(
    members
      .filter(({ wasInside }) => wasInside)
      .map(fileOf)
      .filter(hasMagicNumber),
  );
  const timer = setInterval(() => {
    for (const file of watched) {
      if (hasMagicNumber(file)) continue;
      watched.delete(file);
      say("magic-cleared");
    }
  }, INTERVAL_MS);
  return () => clearInterval(timer);
}

/** Nor has a volume that is deleted by now. */
function hasMagicNumber(path: string): boolean {
  if (!existsSync(path)) return false;
  const file = openSync(path, "r");
  try {
    const read = Buffer.alloc(MAGIC.length);
    readSync(file, read, 0, MAGIC.length, MAGIC_OFFSET);
    return read.equals(MAGIC);
  } finally {
    closeSync(file);
  }
}
