import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { Refusal } from "../../../../../src/contracts/csi/refusal.ts";
import {
  createReductionsUnderWay,
  loadReduceTokens,
  type ReduceTokens,
  type ReductionUnderWay,
} from "../../../../../src/lvmd/volumes/reduce/reductions.ts";
import { resizeVolume } from "../../../../../src/lvmd/volumes/resize-volume.ts";
import { systemClock } from "../../../../../src/platform/process/clock.ts";
import { directEffects } from "../../../../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../../../../src/platform/process/effects/file-port.ts";
import { eventually } from "../../../../harness/wait-for.ts";
import { hostWithReport } from "../../host-with-report.ts";
import { deviceClass, GIB, groupOf, MIB, volume } from "../../lvm-facts.ts";

const REQUEST = { volumeUUID: "uuid-v", fromBytes: GIB, toBytes: GIB / 2, token: "t" };
const refusal = new Refusal("ABORTED", "make way");

/** Goes on until it is told to stop, and a little longer. */
async function untilStopped(underWay: ReductionUnderWay, ended: string[]): Promise<void> {
  await eventually("its stop", () => underWay.stopped() !== undefined);
  await turn();
  ended.push(underWay.stopped()?.kind ?? "");
}

describe("a reduction under way", () => {
  it("is cancelled by its token, and by no other", async () => {
    const reductions = createReductionsUnderWay();
    const ended: string[] = [];
    const running = reductions.run(REQUEST, (underWay) => untilStopped(underWay, ended));
    reductions.cancel("other");
    await turn();
    expect(reductions.isReducing("uuid-v")).toBe(true);
    reductions.cancel("t");
    await running;
    expect([ended, reductions.isReducing("uuid-v")]).toEqual([["Cancelled"], false]);
  });

  it("that was cancelled stays cancelled when its volume is wanted for something else before it has ended", async () => {
    const reductions = createReductionsUnderWay();
    const ended: string[] = [];
    const running = reductions.run(REQUEST, (underWay) => untilStopped(underWay, ended));
    reductions.cancel("t");
    await reductions.preempt("uuid-v", refusal);
    await running;
    expect(ended).toEqual(["Cancelled"]);
  });

  it("has ended once its volume is free for something else, however it ends", async () => {
    const reductions = createReductionsUnderWay();
    const ended: string[] = [];
    const failing = reductions.run(REQUEST, async (underWay) => {
      await untilStopped(underWay, ended);
      throw new Error("hung");
    });
    const failed = expect(failing).rejects.toThrow("hung");
    await reductions.preempt("uuid-of-another", refusal);
    expect(ended).toEqual([]);
    await reductions.preempt("uuid-v", refusal);
    expect([ended, reductions.isReducing("uuid-v")]).toEqual([["Preempted"], false]);
    await failed;
  });
});

describe("a volume that is to be grown, or that somebody says is large enough", () => {
  const tokens: Pick<ReduceTokens, "openOf"> = { openOf: () => undefined };
  let directory = "";
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tokens-"));
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  it("is answered for once nothing is zeroed behind its filesystem any more", async () => {
    const thick = deviceClass();
    const host = hostWithReport(thick, [groupOf([GIB], [volume({ name: "v" })])]);
    const ended: string[] = [];
    // As the reduction itself: its last step is in the group's turn, for which it may be waiting.
    const running = host.reductions.run(REQUEST, async (underWay) => {
      await untilStopped(underWay, ended);
      await host.queues.run("g", async () => void ended.push("in turn"));
    });
    expect(await resizeVolume(host, tokens as ReduceTokens, "class", "v", 4 * MIB)).toBe(GIB);
    expect(ended).toEqual(["Preempted", "in turn"]);
    await running;
  });

  it.each([
    ["was carried out", GIB / 2, { state: "Reduced", sizeBytes: GIB / 2 }],
    ["was not", GIB, { state: "Burnt" }],
  ])("has the reduction of a former lvmd, which %s, ended first", async (_what, sizeBytes, end) => {
    const store = loadReduceTokens(directory, createFilePort(directEffects), systemClock);
    await store.begin(REQUEST, REQUEST.toBytes);
    const host = hostWithReport(deviceClass(), [groupOf([GIB], [volume({ name: "v", sizeBytes })])]);
    expect(await resizeVolume(host, store, "class", "v", 4 * MIB)).toBe(sizeBytes);
    expect(store.get(REQUEST.token)?.end).toEqual(end);
  });
});
