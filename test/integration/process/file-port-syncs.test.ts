// What the kernel is asked for when a record is written: without these calls a record that was acknowledged is gone, or empty, after a
// power cut, and no test that kills a process can see that.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { describeReal } from "../../harness/real-parts.ts";
import { straceTo } from "../../harness/strace.ts";
import { type SyncedRename, syncedRenames } from "../../harness/synced-renames.ts";
import { type BundledOperation, bundleOperation } from "../storage/bundled-operation.ts";

describeReal("a record written whole, as the kernel sees it", ["strace"], () => {
  let operation: BundledOperation;
  let directory: string;

  beforeAll(() => {
    operation = bundleOperation(new URL("write-record.ts", import.meta.url));
    directory = mkdtempSync(join(tmpdir(), "tidemark-record-"));
  });
  afterAll(() => {
    operation.remove();
    rmSync(directory, { recursive: true });
  });

  function written(durability: "ProcessDeath" | "PowerCut" | ""): SyncedRename[] {
    const [trace, path] = [join(directory, "trace"), join(directory, "record.json")];
    const [strace = "", ...words] = [...straceTo(trace), process.execPath, operation.program, path, durability, "text"];
    execFileSync(strace, words, { stdio: ["ignore", "ignore", "pipe"] });
    expect(readFileSync(path, "utf8")).toBe("text");
    return syncedRenames(trace, directory).map((rename) => ({ ...rename, path: rename.path.slice(directory.length) }));
  }

  it.each(["PowerCut", ""] as const)(
    "is on the disk before it gets its name, and so is its name before it is acknowledged (durability %p)",
    (durability) => {
      expect(written(durability)).toEqual([{ path: "/record.json", fileSynced: true, directorySynced: true }]);
    },
  );

  it("waits for no disk where it need only outlive the process", () => {
    expect(written("ProcessDeath")).toEqual([{ path: "/record.json", fileSynced: false, directorySynced: false }]);
  });
});
