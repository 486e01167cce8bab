// Whether an unmounted ext4 is whole, by a full check that changes nothing.
import type { Tools } from "../../tools.ts";

/** A check reads all of a filesystem's tables: of terabytes on a slow disk it takes its time. */
export const CHECK_LIMIT_MS = 2 * 3_600_000;
const SAID_LIMIT_CHARACTERS = 500;

/** Undefined: it is, though it may be that it could be better. Else what e2fsck says. Throws StorageError where it does not end. */
export async function checkFilesystem(tools: Tools, device: string): Promise<string | undefined> {
  const { exitCode, stdout, stderr } = await tools.query(
    "e2fsck",
    ["-f", "-n", "-E", "fixes_only", device],
    CHECK_LIMIT_MS,
  );
  if (exitCode === 0) return undefined;
  const said = `${stdout}\n${stderr}`.split("\n").filter((line) => line !== "" && !/^(Pass \d|e2fsck \d)/.test(line));
  return `exit ${exitCode}: ${said.join("; ")}`.slice(0, SAID_LIMIT_CHARACTERS);
}
