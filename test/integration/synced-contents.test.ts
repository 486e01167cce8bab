// What a process leaves of a file that it wrote in both ways, and that dies within a synced write: strace ends a real one right before a system
// call. What a later power cut would leave is never older than what was synced last.
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { createFilePort, syncedPath } from "../../src/platform/process/effects/file-port.ts";
import { describeReal } from "../harness/real-parts.ts";

const EFFECTS = new URL("../../src/platform/process/effects/effects.ts", import.meta.url).href;
const FILE_PORT = new URL("../../src/platform/process/effects/file-port.ts", import.meta.url).href;
const WRITE = `
  import { directEffects } from ${JSON.stringify(EFFECTS)};
  import { createFilePort } from ${JSON.stringify(FILE_PORT)};
  await createFilePort(directEffects).writeWhole("record/write", process.argv[1], "second synced");`;

describeReal("a file of which a process dies in a synced write", ["strace"], () => {
  const files = createFilePort(directEffects);
  let directory: string;
  let path: string;

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-synced-"));
    path = join(directory, "record.json");
    await files.writeWhole("record/write", path, "first synced");
    await files.writeWhole("record/write", path, "not synced", 0o600, "ProcessDeath");
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  /** The only process to use the file: right before this call on one of these paths. */
  const dieBefore = (call: string, on: string): NodeJS.Signals | null => {
    const strace = [
      "-f",
      "-qq",
      "-o",
      "/dev/null",
      "-P",
      on,
      "-e",
      `trace=${call}`,
      "-e",
      `inject=${call}:signal=KILL`,
    ];
    const node = [process.execPath, "--import", "tsx", "--input-type=module", "--eval", WRITE, path];
    return spawnSync("strace", [...strace, ...node]).signal;
  };

  it.each([
    ["its new contents are in their place", "rename", ".new", "not synced"],
    ["those before are let go of", "unlink", ".synced", "second synced"],
  ])("before %s has what was synced last after the next unsynced write", async (_when, call, suffix, left) => {
    expect(dieBefore(call, `${path}${suffix}`)).toBe("SIGKILL");
    expect(readFileSync(path, "utf8")).toBe(left);
    await files.writeWhole("record/write", path, "what a power cut takes", 0o600, "ProcessDeath");
    expect(readFileSync(syncedPath(path), "utf8")).toBe("second synced");
    await files.writeWhole("record/write", path, "third synced");
    expect([readFileSync(path, "utf8"), existsSync(syncedPath(path))]).toEqual(["third synced", false]);
  });
});
