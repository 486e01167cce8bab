// What is recorded of an operation, and when: an agent that dies at any moment, and everyone who reads the API meanwhile, goes by that.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { spendEmergency } from "../../../../src/agent/apply/spend-emergency.ts";
import type { ShrinkControl, Storage } from "../../../../src/agent/storage/storage.ts";
import type { FilesystemLayoutSpec } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { systemClock } from "../../../../src/platform/process/clock.ts";
import type { Effects } from "../../../../src/platform/process/effects/effects.ts";
import { createLogger } from "../../../../src/platform/process/log.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { createSimulatedNode, type SimulatedNode, type SimulatedNodeParts } from "../../../harness/simulated-node.ts";
import { eventually } from "../../../harness/wait-for.ts";

const DECIDED = "2026-01-01T00:01:00Z";
/** More than any chain of promises takes that waits for nothing outside. */
const TURNS = 200;

describe("an operation", () => {
  let directory: string;
  let node: SimulatedNode;
  /** While set, neither the node's disk nor the API server takes anything, each by its name. */
  let held: Set<"disk" | "API server">;
  let begun: { readonly disk: string | undefined; readonly told: readonly string[] }[];
  let control: ShrinkControl | undefined;

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-operation-record-"));
    [held, begun, control] = [new Set(), [], undefined];
  });
  afterEach(async () => {
    held.clear();
    await node.stop();
    rmSync(directory, { recursive: true });
  });

  const whileHeld = async (what: "disk" | "API server"): Promise<void> => {
    while (held.has(what)) await turn();
  };
  const effects: Effects = {
    run: async (point, effect) => {
      if (point === "agent-record/write") await whileHeld("disk");
      return effect();
    },
  };
  const around = ({ extend, shrink }: Storage): Partial<Storage> => {
    const begins = (): void => {
      begun.push({ disk: node.recordOnDisk()?.operation?.kind, told: node.told.filter((what) => what !== "idle") });
    };
    return {
      extend: (...args) => {
        begins();
        return extend(...args);
      },
      shrink: (volume, sizeBytes, by) => {
        begins();
        control = by;
        return shrink(volume, sizeBytes, by);
      },
    };
  };
  /** Of 1 GiB, mounted, at which nothing runs. */
  async function start(spec: Partial<FilesystemLayoutSpec> = {}, parts: SimulatedNodeParts = {}): Promise<void> {
    const layout = buildLayout(spec);
    const taking = (): Promise<void> => whileHeld("API server");
    node = await createSimulatedNode(directory, { layout, left: {}, effects, around, taking, ...parts });
    node.look();
    await eventually("the first look", () => node.told.includes("idle"));
  }
  const want = (size: string, from: string, decidedAt = DECIDED): void => {
    const target = { size, from, epoch: 3, decidedAt };
    node.layout = { ...node.layout, spec: { ...node.layout.spec, target } };
    node.look();
  };
  const turns = async (): Promise<void> => {
    for (let count = 0; count < TURNS; count += 1) await turn();
  };

  it.each([
    ["Extend", "2Gi"],
    ["Shrink", "512Mi"],
  ] as const)(
    "that was decided (%s) is on the node's disk and in the API before storage is asked",
    async (kind, size) => {
      await start();
      want(size, "1Gi");
      await eventually("its end", () => node.ended.length > 0);
      expect(node.ended[0]).toMatchObject({ kind, outcome: "Succeeded", reached: size });
      expect(begun).toEqual([{ disk: kind, told: [`running ${kind}`] }]);
    },
  );

  it("does not begin while the API server has not taken its record, and then does", async () => {
    await start();
    held.add("API server");
    want("2Gi", "1Gi");
    await eventually("its record on the disk", () => node.recordOnDisk()?.operation !== undefined);
    await turns();
    expect([begun, await node.sizeBytes()]).toEqual([[], GIB]);
    held.clear();
    await eventually("its end", () => node.ended.length > 0);
    expect(begun).toEqual([{ disk: "Extend", told: ["running Extend"] }]);
  });

  it("does not begin while the node's disk has not taken its record, and then does", async () => {
    // The epoch is known already: nothing else is to be recorded before the operation itself.
    await start({}, { left: { epoch: 3 } });
    held.add("disk");
    want("2Gi", "1Gi");
    await eventually("the API to be told", () => node.told.includes("running Extend"));
    await turns();
    expect([begun, await node.sizeBytes()]).toEqual([[], GIB]);
    held.clear();
    await eventually("its end", () => node.ended.length > 0);
    expect(begun).toEqual([{ disk: "Extend", told: ["running Extend"] }]);
  });

  it("that has ended is on the node's disk, with the target that it ends, and is no running one there any more", async () => {
    await start();
    want("2Gi", "1Gi");
    await eventually("its end in the API", () => node.told.at(-1) === "idle" && node.told.includes("Succeeded"));
    expect(node.recordOnDisk()).toMatchObject({
      lastOperation: { kind: "Extend", outcome: "Succeeded", from: "1Gi", reached: "2Gi" },
      endedDecidedAt: DECIDED,
    });
    expect(node.recordOnDisk()?.operation).toBeUndefined();
  });

  it("that shrinks leaves available what its writer writes in two seconds at its peak, as that is at each moment", async () => {
    await start();
    node.read({ peakWriteBytesPerSecond: 200 * MIB });
    want("768Mi", "1Gi");
    await eventually("it to begin", () => control !== undefined);
    expect(control?.reserveBytes()).toBe(400 * MIB);
    node.read({ peakWriteBytesPerSecond: 300 * MIB });
    expect(control?.reserveBytes()).toBe(600 * MIB);
    node.read();
    expect(control?.reserveBytes()).toBe(256 * MIB);
  });

  it("that shrinks never leaves less than minAvailable, however little is written", async () => {
    const expiry = "2126-01-01T00:00:00Z";
    await start({ emergency: { size: "2Gi", minAvailable: "300Mi", expiry, epoch: 3 } });
    want("768Mi", "1Gi");
    await eventually("it to begin", () => control !== undefined);
    expect(control?.reserveBytes()).toBe(300 * MIB);
  });

  describe("of an emergency", () => {
    const emergency = { size: "2Gi", minAvailable: "200Mi", expiry: "2126-01-01T00:00:00Z", epoch: 3 };
    const spend = (): Promise<void> =>
      spendEmergency(
        { runner: node.work.runner, clock: systemClock, bootID: "boot-a", log: createLogger("test", "silent") },
        node.volume(),
      );

    it("waits for neither: its grant was recorded in advance", async () => {
      await start({ emergency });
      expect(node.recordOnDisk()?.grant).toEqual(emergency);
      held.add("API server").add("disk");
      node.read({ availableBytes: 100 * MIB });
      await spend();
      await eventually("the extend", () => begun.length > 0);
      expect(begun).toEqual([{ disk: undefined, told: [] }]);
      held.clear();
      await eventually("its end in the API", () => node.told.at(-1) === "idle" && node.told.includes("Succeeded"));
      expect(node.recordOnDisk()?.lastOperation).toMatchObject({ emergency: true, reached: "2Gi" });
      expect(node.recordOnDisk()?.operation).toBeUndefined();
    });

    it("is not begun on a reading from before the last operation's end, which says nothing of the present size", async () => {
      await start({ emergency });
      const before = systemClock.monotonicMs();
      want("1200Mi", "1Gi");
      await eventually("the extend", () => node.ended.length > 0);
      await eventually("the look after it", () => node.told.at(-1) === "idle");
      // The moment of its end itself counts as after it.
      node.read({ takenMs: Math.min(before, node.state().operationEndedMs - 1), availableBytes: 100 * MIB });
      await spend();
      expect(node.state().running).toBeUndefined(); // one that is spent has begun by then
      expect([node.ended.length, await node.sizeBytes()]).toEqual([1, 1200 * MIB]);
      node.read({ takenMs: node.state().operationEndedMs, availableBytes: 100 * MIB });
      await spend();
      await eventually("the emergency extend", () => node.ended.length === 2);
      expect([node.ended[1]?.reason, await node.sizeBytes()]).toEqual(["EmergencySpent", 2 * GIB]);
    });
  });
});
