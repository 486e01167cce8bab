// A user's balance that begins between an extend's look at the filesystem and its own command, on a span: room goes first, and it is told
// of. Real btrfs over a real CSI node plugin; the balance begins right before the command, each time.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { SpanMember } from "../../../src/agent/member-drivers/span-member.ts";
import { exclusiveOperation } from "../../../src/agent/storage/btrfs/exclusive-operation.ts";
import type { MountedSpan } from "../../../src/agent/storage/storage.ts";
import type { EffectPoint, Effects } from "../../../src/platform/process/effects/effects.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import { waitFor } from "../../harness/wait-for.ts";
import {
  createSpanFixture,
  makeMember,
  makeSpan,
  type SpanFixture,
  spanStorageIn,
  withMembers,
} from "./span-fixture.ts";
import { GIB } from "./storage-fixture.ts";

/** Fewer than an extend cancels. */
const TIMES = 3;

describeReal("a span whose user starts a balance right before a command of its extend", LOOP_PARTS, () => {
  let fixture: SpanFixture;
  let m0: SpanMember;
  let mounted: MountedSpan;
  let told: string[];

  beforeEach(async () => {
    fixture = await createSpanFixture();
    m0 = makeMember(fixture, "m0", 2 * GIB);
    const volume = makeSpan([m0]);
    mounted = await fixture.storage.stage(volume, 0, fixture.mountPathOf(volume));
    const data = join(mounted.mountPath, "data");
    execFileSync("dd", ["if=/dev/urandom", `of=${data}`, "bs=1M", "count=600", "conv=fsync", "status=none"]);
    told = [];
  });
  afterEach(() => fixture.cleanUp());

  const state = (): string => exclusiveOperation(mounted.fsid);
  const start = (): void => {
    const args = ["balance", "start", "--full-balance", mounted.mountPath];
    spawn("btrfs", args, { stdio: "ignore" });
  };
  const run = async (): Promise<void> => {
    await waitFor("a balance", async () => {
      if (state() === "none") start();
      return state() === "balance" || undefined;
    });
  };
  const pause = async (): Promise<void> => {
    await waitFor("a paused balance", async () => {
      if (state() === "none") start();
      spawnSync("btrfs", ["balance", "pause", mounted.mountPath]);
      return state() === "balance paused" || undefined;
    });
  };

  /** The first commands of this point meet a balance. */
  function extend(members: readonly SpanMember[], sizeBytes: number, point: EffectPoint, disturb: () => Promise<void>) {
    let left = TIMES;
    const effects: Effects = {
      run: async (each, effect) => {
        if (each === point && left > 0) {
          left -= 1;
          await disturb();
        }
        return effect();
      },
    };
    const storage = spanStorageIn(fixture.directory, effects);
    return storage.extend(withMembers(mounted, members), sizeBytes, undefined, (message) => told.push(message));
  }

  it("gets its next member", async () => {
    const m1 = makeMember(fixture, "m1", GIB);
    // A member is added beside a paused balance.
    expect(await extend([m0, m1], 3 * GIB, "span/add-device", run)).toBe(3 * GIB);
    expect(told).toContain("a balance that is not Tidemark's was cancelled for it: start it again");
  });

  it("uses a member that has grown", async () => {
    fixture.driver.growVolume(m0.volume?.volumeHandle ?? "", 3 * GIB);
    const grown = { ...m0, sizeBytes: 3 * GIB, capacityBytes: 3 * GIB };
    expect(await extend([grown], 3 * GIB, "span/resize-device", pause)).toBe(3 * GIB);
    const cancelled = "a balance paused that is not Tidemark's was cancelled for it: start it again";
    expect(told).toEqual(Array.from({ length: TIMES }, () => cancelled));
  });
});
