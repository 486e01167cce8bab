import { describe, expect, it } from "@jest/globals";
import type { Reader } from "../../../src/agent/storage/read-filesystem.ts";
import type { MountedFilesystem, ShrinkControl } from "../../../src/agent/storage/storage.ts";
import type { Finished } from "../../../src/agent/storage/tools.ts";
import { runWatched } from "../../../src/agent/storage/watched-command.ts";
import { eventually } from "../../fakes/eventually.ts";

/** Of no filesystem that is there: it can neither be read nor cancelled. */
const volume = {
  handle: "fs-gone",
  fsid: "00000000-dead-4000-8000-000000000000",
  fsType: "btrfs",
} as MountedFilesystem;
const control: ShrinkControl = {
  reserveBytes: () => 0,
  signal: new AbortController().signal,
  onStep: () => undefined,
};

describe("a command under watch whose filesystem cannot be read any more", () => {
  it("is cancelled, again and again, until it has ended; then the reader's error is told", async () => {
    let failedCancels = 0;
    const log = { warn: () => (failedCancels += 1) };
    const host = { log, clock: { nowMs: () => 0, monotonicMs: () => 0 } } as unknown as Parameters<
      typeof runWatched
    >[0];
    const reader: Reader = {
      read: () => {
        throw new Error("statfs: EIO");
      },
      close: () => undefined,
    };
    let ended = false;
    let end = (): void => undefined;
    const command = new Promise<Finished>((resolve) => {
      end = () => resolve({ commandLine: "btrfs", exitCode: 0, stdout: "", stderr: "" });
    });
    const watched = runWatched(host, volume, reader, control, () => command).finally(() => {
      ended = true;
    });
    watched.catch(() => undefined);
    await eventually("two cancels", () => failedCancels >= 2 || ended);
    expect(ended).toBe(false);
    end();
    await expect(watched).rejects.toThrow("statfs: EIO");
  });
});
