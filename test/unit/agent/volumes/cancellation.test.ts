import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { recordWithLayout } from "../../../../src/agent/gather/layout-record.ts";
import type { NodeVolume } from "../../../../src/agent/volumes/node-volume.ts";
import {
  type CancelCause,
  Cancellation,
  isCancelledFor,
  type Work,
} from "../../../../src/agent/volumes/volume-state.ts";
import { MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { buildRunning, buildVolume } from "../../../builders/node-volume.ts";

const ALL: readonly Work[] = ["Extend", "Shrink", "Trim", "SparePreparation"];
const UNSTAGE = { because: "Unstage" } as const;

/** A mounted volume on which this runs. */
function running(work: Work): { readonly volume: NodeVolume; readonly signal: AbortSignal } {
  const volume = buildVolume(recordWithLayout(buildLayout(), undefined));
  switch (work) {
    case "Extend":
    case "Shrink":
      volume.dispatch({ type: "OperationStarted", operation: buildRunning(work).operation, startedMs: 0 });
      return { volume, signal: volume.signalOf("running") };
    case "Trim":
      volume.dispatch({ type: "TrimStarted" });
      return { volume, signal: volume.signalOf("trim") };
    case "SparePreparation":
      volume.dispatch({ type: "SparePreparationStarted", wanted: "1 spare" });
      return { volume, signal: volume.signalOf("sparePreparation") };
  }
}

describe("what runs on a volume", () => {
  it.each<[CancelCause, Work[], string]>([
    [{ because: "TargetChanged", decision: "an extend goes first" }, ["Shrink"], "an extend goes first"],
    [
      { because: "EmergencyExtend", availableBytes: 3 * MIB },
      ["Extend", "Shrink"],
      "only 3Mi are available: the emergency extend goes first",
    ],
    [{ because: "DeviceLate" }, ["Extend"], "the disk fills, and the device has not followed"],
    [UNSTAGE, ["Extend", "Shrink"], "the volume is being unstaged"],
    [{ because: "AgentEnds" }, ["Shrink"], "the agent ends"],
    [{ because: "TrimmerStops" }, ["Trim"], "the agent ends"],
    [{ because: "OperationBegins", kind: "Shrink" }, ["Trim"], "Shrink begins"],
    [{ because: "MembersChanged" }, ["SparePreparation"], "other members are wanted"],
  ])("gives way to %j: only %j", (cause, gives, message) => {
    const signals = ALL.map((work) => {
      const { volume, signal } = running(work);
      volume.cancel(cause);
      return { work, signal };
    });
    const cancelled = signals.filter(({ signal }) => signal.aborted);
    expect(cancelled.map(({ work }) => work)).toEqual(gives);
    for (const { signal } of cancelled) expect(`stopped: ${String(signal.reason)}`).toBe(`stopped: ${message}`);
  });

  it("keeps the first cause, whose words people read", () => {
    const { volume, signal } = running("Shrink");
    volume.cancel({ because: "AgentEnds" });
    volume.cancel(UNSTAGE);
    expect(isCancelledFor(signal, "AgentEnds")).toBe(true);
    expect(isCancelledFor(signal, "Unstage")).toBe(false);
    expect(volume.state.running?.cancellation).toBe(signal.reason);
  });

  it("runs on until its end comes, cancelled or not", () => {
    const { volume } = running("Shrink");
    volume.cancel(UNSTAGE);
    expect(volume.state.running?.operation.kind).toBe("Shrink");
  });

  it("is not cancelled by what came before it", () => {
    const { volume, signal } = running("Shrink");
    volume.cancel(UNSTAGE);
    volume.dispatch({ type: "OperationRevoked" });
    volume.dispatch({ type: "OperationStarted", operation: buildRunning("Shrink").operation, startedMs: 0 });
    expect(signal.aborted).toBe(true);
    expect(volume.signalOf("running").aborted).toBe(false);
    expect(volume.state.running?.cancellation).toBeUndefined();
  });

  it.each<[Work, Work]>([
    ["Shrink", "Extend"],
    ["Extend", "Shrink"],
    ["Extend", "Extend"],
  ])("is one operation at a time: during a(n) %s no %s starts", (first, second) => {
    const { volume } = running(first);
    const { operation } = buildRunning(second === "Shrink" ? "Shrink" : "Extend");
    expect(() => volume.dispatch({ type: "OperationStarted", operation, startedMs: 0 })).toThrow("bug");
  });

  it("is waited for to its end by who cancels it, and by nobody where nothing runs", async () => {
    const { volume } = running("Shrink");
    let end = (): void => undefined;
    volume.operationEndsWith(new Promise((resolve) => (end = resolve)));
    let isOver = false;
    const waiting = volume.cancelAndWait(UNSTAGE).then(() => (isOver = true));
    await new Promise(setImmediate);
    expect(isOver).toBe(false);
    end();
    await waiting;
    volume.operationEndsWith(new Promise(() => undefined));
    volume.dispatch({ type: "OperationRevoked" });
    await volume.cancelAndWait(UNSTAGE);
  });

  it("is cancelled by no other way: only storage, of its own commands, and this abort", () => {
    const rooms = ["apply", "decide", "gather", "report", "volumes", "sampling"];
    const files = rooms.flatMap((room) =>
      readdirSync(join("src/agent", room)).map((name) => join("src/agent", room, name)),
    );
    expect(
      files.filter((file) => /(?<!AbortSignal)\.abort\(|new AbortController/.test(readFileSync(file, "utf8"))),
    ).toEqual(["src/agent/volumes/node-volume.ts"]);
  });
});

it("a signal that was aborted by something else was cancelled for no cause", () => {
  expect(isCancelledFor(AbortSignal.abort("the disk fills"), "DeviceLate")).toBe(false);
  expect(isCancelledFor(AbortSignal.abort(new Cancellation({ because: "DeviceLate" })), "DeviceLate")).toBe(true);
});
