import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, it } from "@jest/globals";
import { createGroupQueues } from "../../../../src/lvmd/lvm/lvm.ts";
import { LvmError } from "../../../../src/lvmd/lvm/lvm-error.ts";

describe("the queues of volume groups", () => {
  it("let one change of a group at a time, in order, and different groups at once", async () => {
    const queues = createGroupQueues();
    const log: string[] = [];
    const work = (name: string) => async (): Promise<void> => {
      log.push(`begin ${name}`);
      await pause(10);
      log.push(`end ${name}`);
    };
    await Promise.all([queues.run("a", work("a1")), queues.run("a", work("a2")), queues.run("b", work("b1"))]);
    expect(log.filter((line) => line.includes("a"))).toEqual(["begin a1", "end a1", "begin a2", "end a2"]);
    expect(log.indexOf("begin b1")).toBeLessThan(log.indexOf("end a1"));
  });

  it("go on after a failure", async () => {
    const queues = createGroupQueues();
    await expect(queues.run("a", () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(await queues.run("a", async () => 1)).toBe(1);
  });

  it("begin nothing behind a command that hangs, until it has ended", async () => {
    const queues = createGroupQueues();
    let end = (): void => undefined;
    const gone = new Promise<void>((resolve) => {
      end = resolve;
    });
    let begun = 0;
    const hanging = queues.run("a", () =>
      Promise.reject(new LvmError("TimedOut", "lvcreate: no end", undefined, gone)),
    );
    const behind = queues.run("a", async () => {
      begun += 1;
    });
    await expect(hanging).rejects.toMatchObject({ code: "TimedOut" });
    await expect(behind).rejects.toMatchObject({ code: "Hung", message: expect.stringContaining("lvcreate: no end") });
    expect(begun).toBe(0);
    expect(await queues.run("b", async () => "other")).toBe("other");
    end();
    await pause(0);
    expect(await queues.run("a", async () => "again")).toBe("again");
  });

  it("do not let more wait than can be served", async () => {
    const queues = createGroupQueues();
    let open = (): void => undefined;
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const waiting = Array.from({ length: 512 }, () => queues.run("a", () => gate));
    await expect(queues.run("a", () => gate)).rejects.toMatchObject({ code: "Busy" });
    open();
    await Promise.all(waiting);
  });
});
