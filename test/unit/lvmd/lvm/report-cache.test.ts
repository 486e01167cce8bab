import { setTimeout as pause } from "node:timers/promises";
import { afterEach, describe, expect, it } from "@jest/globals";
import type { Lvm } from "../../../../src/lvmd/lvm/lvm.ts";
import { LvmError } from "../../../../src/lvmd/lvm/lvm-error.ts";
import { createReportCache, type ReportCache } from "../../../../src/lvmd/lvm/report-cache.ts";
import { createLogger } from "../../../../src/platform/process/log.ts";
import { waitFor } from "../../../harness/wait-for.ts";
import { GIB, volume } from "../lvm-facts.ts";

const GROUP =
  '"vg_name":"g", "vg_size":"2147483648", "vg_extent_size":"4194304", "vg_attr":"wz--n-", "vg_missing_pv_count":"0"';
const reportOf = (freeBytes: number): string => `{"report":[{"vg":[{${GROUP}, "vg_free":"${freeBytes}"}]}]}`;

describe("the cached report", () => {
  let cache: ReportCache;
  let asked = 0;
  let running = 0;
  let mostRunning = 0;
  let freeBytes = 2 * GIB;
  let busy = false;
  let answer: () => Promise<void> = async () => undefined;

  const create = (): ReportCache => {
    asked = 0;
    running = 0;
    mostRunning = 0;
    freeBytes = 2 * GIB;
    busy = false;
    answer = async () => undefined;
    const lvm: Pick<Lvm, "query"> = {
      query: async () => {
        asked += 1;
        running += 1;
        mostRunning = Math.max(mostRunning, running);
        const seen = freeBytes; // LVM looks when it begins
        try {
          await answer();
          return reportOf(seen);
        } finally {
          running -= 1;
        }
      },
    };
    cache = createReportCache(lvm, () => busy, createLogger("test", "silent"));
    return cache;
  };
  const shownFree = (): number | undefined => cache.latest()?.get("g")?.freeBytes;
  const created = { kind: "Created", group: "g", volume: volume({ name: "new" }), takenBytes: GIB } as const;

  afterEach(() => cache.stop());

  it("is asked for once by many who want it at the same time, and never twice at once", async () => {
    create();
    answer = () => pause(20);
    await Promise.all(Array.from({ length: 50 }, () => cache.fresh()));
    expect({ asked, mostRunning }).toEqual({ asked: 2, mostRunning: 1 }); // one may have begun before some of them asked
  });

  it("is not asked for twice at once either by those who ask again as soon as they have heard of one", async () => {
    create();
    answer = () => pause(20);
    let again: Promise<unknown> | undefined;
    cache.onChange(() => {
      again ??= cache.fresh();
    });
    await Promise.all([cache.fresh(), cache.fresh()]);
    await again;
    expect({ asked, mostRunning }).toEqual({ asked: 2, mostRunning: 1 });
  });

  it("that was begun before a change of lvmd's own does not take it back", async () => {
    create();
    await cache.fresh();
    let end = (): void => undefined;
    answer = () => new Promise((resolve) => (end = resolve));
    const late = cache.fresh();
    await waitFor("it to be begun", () => (asked === 2 ? true : undefined));
    cache.note(created);
    expect(shownFree()).toBe(GIB);
    end();
    await late;
    expect(shownFree()).toBe(GIB);
    expect(cache.latest()?.get("g")?.volumes.has("new")).toBe(true);
  });

  it("can be waited for without asking for one", async () => {
    create();
    await cache.settled();
    expect(asked).toBe(0);
    answer = () => pause(20);
    void cache.fresh();
    await cache.settled();
    expect([asked, running, shownFree()]).toEqual([1, 0, 2 * GIB]);
    cache.expectChange();
    await cache.settled();
    expect([asked, running]).toEqual([2, 0]);
    answer = () => Promise.reject(new LvmError("Failed", "no"));
    const failing = cache.fresh().catch((error: unknown) => error);
    await cache.settled();
    expect(await failing).toMatchObject({ message: "no" });
  });

  it("follows what may have changed, also while commands of LVM never end", async () => {
    create();
    await cache.fresh();
    busy = true;
    freeBytes = GIB / 2;
    cache.expectChange();
    await waitFor("the report all the same", () => (shownFree() === GIB / 2 ? true : undefined));
    expect(asked).toBe(2);
  });

  it("stays as it was where LVM gives none, and says why", async () => {
    create();
    await cache.fresh();
    answer = () => Promise.reject(new LvmError("Failed", "LVM is not well"));
    await expect(cache.fresh()).rejects.toThrow("LVM is not well");
    expect(shownFree()).toBe(2 * GIB);
    expect(cache.problem()).toBe("LVM is not well");
    answer = async () => undefined;
    await cache.fresh();
    expect(cache.problem()).toBeUndefined();
  });

  it("is not asked for again before one that hangs has ended", async () => {
    create();
    let end = (): void => undefined;
    const gone = new Promise<void>((resolve) => {
      end = resolve;
    });
    answer = () => Promise.reject(new LvmError("TimedOut", "no end", undefined, gone));
    await expect(cache.fresh()).rejects.toMatchObject({ code: "TimedOut" });
    await expect(cache.fresh()).rejects.toMatchObject({ code: "Hung" });
    expect(asked).toBe(1);
    answer = async () => undefined;
    end();
    await pause(0);
    await cache.fresh();
    expect(asked).toBe(2);
  });
});
