import { afterEach, describe, expect, it } from "@jest/globals";
import { runWatched } from "../../../../../src/agent/storage/btrfs/watched-command.ts";
import type { FilesystemReading, OpenMount } from "../../../../../src/agent/storage/filesystem/mount-reader.ts";
import type { MountedFilesystem, ShrinkControl } from "../../../../../src/agent/storage/storage.ts";
import type { Finished } from "../../../../../src/agent/storage/tools.ts";
import { GIB, MIB } from "../../../../../src/contracts/quantities/quantity.ts";
import { doubleOf } from "../../../../fakes/double-of.ts";
import { eventually, waitFor } from "../../../../harness/wait-for.ts";

/** Of no filesystem that is there: it can neither be read nor cancelled. */
const volume = doubleOf<MountedFilesystem>("MountedFilesystem", {
  handle: "fs-gone",
  fsid: "00000000-dead-4000-8000-000000000000",
  fsType: "btrfs",
});
type WatchingHost = Parameters<typeof runWatched>[0];
/** Each cancel fails, and warns. */
function hostWith(warn: () => void): WatchingHost {
  return doubleOf<WatchingHost>("WatchingHost", {
    log: doubleOf<WatchingHost["log"]>("Logger", { warn }),
  });
}
const control: ShrinkControl = {
  reserveBytes: () => 0,
  signal: new AbortController().signal,
  onStep: () => undefined,
};

describe("a command under watch whose filesystem cannot be read any more", () => {
  it("is cancelled, again and again, until it has ended; then the reader's error is told", async () => {
    let failedCancels = 0;
    const host = hostWith(() => (failedCancels += 1));
    const read = async (): Promise<FilesystemReading> => {
      throw new Error("statfs: EIO");
    };
    const opened = doubleOf<OpenMount>("OpenMount", { read });
    let ended = false;
    let end = (): void => undefined;
    const command = new Promise<Finished>((resolve) => {
      end = () => resolve({ commandLine: "btrfs", exitCode: 0, stdout: "", stderr: "" });
    });
    const watched = runWatched(host, volume, opened, control, () => command).finally(() => {
      ended = true;
    });
    watched.catch(() => undefined);
    await eventually("two cancels", () => failedCancels >= 2 || ended);
    expect(ended).toBe(false);
    end();
    await expect(watched).rejects.toThrow("statfs: EIO");
  });
});

const LOOKS_LIMIT = 5000;

describe("a command under watch", () => {
  const ends: (() => void)[] = [];
  afterEach(() => {
    for (const end of ends.splice(0)) end();
  });

  /** What its filesystem shows at each look, which is of 100 ms after the one before. */
  function watch(show: (look: number) => { availableBytes: number; dataBytes: number }, reserveBytes: () => number) {
    const [LOOK_MS, caller] = [100, new AbortController()];
    let [looks, cancels] = [0, 0];
    const read = async (): Promise<FilesystemReading> => {
      looks += 1;
      // Looks that nothing waits between would let no time limit of this test come.
      if (looks > LOOKS_LIMIT) throw new Error(`it has looked ${LOOKS_LIMIT} times, and has not cancelled`);
      return doubleOf<FilesystemReading>("FilesystemReading", { takenMs: looks * LOOK_MS, ...show(looks) });
    };
    const opened = doubleOf<OpenMount>("OpenMount", { read });
    // The filesystem is none that is there: each attempt to cancel what runs on it is told to the log, and made again.
    const host = hostWith(() => (cancels += 1));
    let end = (): void => undefined;
    const command = new Promise<Finished>((resolve) => {
      end = () => resolve({ commandLine: "btrfs", exitCode: 0, stdout: "", stderr: "" });
    });
    ends.push(() => end());
    const watched = runWatched(
      host,
      volume,
      opened,
      { ...control, signal: caller.signal, reserveBytes },
      () => command,
    );
    return { watched, caller, end: () => end(), looks: () => looks, cancels: () => cancels };
  }
  /** It comes within 50 ms. */
  const cancelled = (one: ReturnType<typeof watch>, times = 1): Promise<true> =>
    waitFor("a cancel", () => one.cancels() >= times || undefined, { limitMs: 30_000 });
  const calm = () => ({ availableBytes: 8 * GIB, dataBytes: GIB });
  const reserve = (): number => 256 * MIB;

  it("goes on to its own end while nobody comes near the reserve", async () => {
    const one = watch(calm, reserve);
    await eventually("some looks", () => one.looks() > 5);
    one.end();
    expect([(await one.watched).cancelled, one.cancels()]).toEqual([undefined, 0]);
  });

  it("is cancelled by its caller, in the words of the caller", async () => {
    const one = watch(calm, reserve);
    await eventually("a look", () => one.looks() > 1);
    one.caller.abort("the emergency extend goes first");
    await cancelled(one);
    one.end();
    expect((await one.watched).cancelled).toBe("it was stopped: the emergency extend goes first");
  });

  it("is cancelled once less than the reserve is available", async () => {
    const one = watch((look) => ({ availableBytes: look < 4 ? 300 * MIB : 255 * MIB, dataBytes: GIB }), reserve);
    await cancelled(one);
    one.end();
    expect((await one.watched).cancelled).toContain("255Mi are available, under the reserve of 256Mi");
    expect(one.looks()).toBe(4);
  });

  it("is cancelled once the reserve itself has risen, by a writer's peak, above what is available", async () => {
    let reserveBytes = 256 * MIB;
    const one = watch(
      () => ({ availableBytes: GIB, dataBytes: GIB }),
      () => reserveBytes,
    );
    await eventually("a look", () => one.looks() > 1);
    reserveBytes = 2 * GIB;
    await cancelled(one);
    one.end();
    expect((await one.watched).cancelled).toContain("under the reserve of 2Gi");
  });

  it("is cancelled while there is room still, when a writer would reach the reserve before that has an effect", async () => {
    // 500 MiB a second: with less than that above the reserve a cancel would come too late.
    const show = (look: number) => ({ availableBytes: 2 * GIB - look * 50 * MIB, dataBytes: GIB + look * 50 * MIB });
    const one = watch(show, reserve);
    await cancelled(one);
    one.end();
    const end = await one.watched;
    expect(end.cancelled).toMatch(/are available and a writer takes \S+\/s, so the reserve of 256Mi would be reached/);
    expect(show(one.looks()).availableBytes).toBeGreaterThan(256 * MIB + 400 * MIB);
  });

  it("that is to be cancelled is awaited, however long it takes to end", async () => {
    const one = watch(calm, reserve);
    let ended = false;
    one.watched.finally(() => (ended = true)).catch(() => undefined);
    one.caller.abort("the volume is being unstaged");
    await cancelled(one, 3);
    expect(ended).toBe(false);
    one.end();
    expect((await one.watched).finished.exitCode).toBe(0);
  });
});
