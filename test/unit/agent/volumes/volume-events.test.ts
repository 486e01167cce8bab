// What is known of a volume after something has happened to it.
import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { recordWithLayout } from "../../../../src/agent/gather/layout-record.ts";
import type { FoundMember } from "../../../../src/agent/storage/storage.ts";
import { reduce, type VolumeEvent } from "../../../../src/agent/volumes/volume-events.ts";
import { Cancellation, type NodeVolumeState, newVolumeState } from "../../../../src/agent/volumes/volume-state.ts";
import type { LastOperation } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { buildMount, buildRunning, buildVolumeState, type VolumeChange } from "../../../builders/node-volume.ts";
import { buildSampledReading } from "../../../builders/sampled-reading.ts";
import { buildSpanLayout, buildSpanMember } from "../../../builders/span-layout.ts";
import { property } from "../../../harness/property.ts";

const loop = recordWithLayout(buildLayout(), undefined);
const spare = { ...buildSpanMember("m1"), state: "Spare" as const };
const span = recordWithLayout(buildSpanLayout({ members: [buildSpanMember("m0"), spare] }), undefined);
const { operation } = buildRunning("Shrink");
const started = { type: "OperationStarted", operation, startedMs: 7 } as const;
const at = "2026-01-01T00:00:01Z";
const endOf = (change: Partial<LastOperation> = {}) =>
  ({
    type: "OperationEnded",
    lastOperation: { ...operation, outcome: "Succeeded", reached: "1Gi", endedAt: at, ...change },
    ...{ sizeBytes: GIB, agrees: true, endedMs: 9 },
  }) as const;
const after = (state: NodeVolumeState, ...events: VolumeEvent[]): NodeVolumeState =>
  events.reduce<NodeVolumeState>((before, event) => reduce(before, event), state);

describe("a volume that is mounted", () => {
  const volume = buildMount(span);
  const mounted = after(newVolumeState(span, true), { type: "Mounted", volume });

  it("is of one size with its member only once that was looked at: the agent before may have died in between", () => {
    expect(mounted.unsettled).toEqual({ problem: undefined });
    expect(after(mounted, { type: "Settled" }).unsettled).toBeUndefined();
  });

  it("has no problem of an earlier stage, and no operation that an emergency would count from", () => {
    const failed = buildVolumeState(span, {
      mounted: undefined,
      problem: { reason: "MountFailed", message: "no" },
      operationEndedMs: 5,
    });
    const state = after(failed, { type: "Mounted", volume });
    expect(state).toMatchObject({ phase: "Mounted", problem: undefined, operationEndedMs: 0 });
  });

  it("says nothing of what was found at an earlier mount, nor takes what is found too late", () => {
    const members: FoundMember[] = [{ name: "m0", state: "Present" }];
    const late: VolumeEvent[] = [
      { type: "MembersFound", volume, members },
      { type: "MovingChecked", volume, immovable: "it has 3 snapshots" },
    ];
    expect(after(mounted, ...late).mounted).toMatchObject({ members, moving: { immovable: "it has 3 snapshots" } });
    const again: VolumeEvent[] = [{ type: "Unmounted" }, { type: "Mounted", volume: buildMount(span) }];
    const fresh = after(mounted, ...late, { type: "Hung" }, { type: "FoundReadOnly", nowMs: 1 }, ...again);
    const nothing = { members: [], hung: false, readOnlySinceMs: undefined, moving: undefined };
    expect(fresh.mounted).toMatchObject(nothing);
    expect(after(fresh, ...late).mounted).toMatchObject(nothing);
  });

  it("is read-only since it was first found to be", () => {
    const found = after(mounted, { type: "FoundReadOnly", nowMs: 1 }, { type: "FoundReadOnly", nowMs: 2 });
    expect(found.mounted?.readOnlySinceMs).toBe(1);
    expect(after(found, { type: "FoundWritable" }).mounted?.readOnlySinceMs).toBeUndefined();
  });

  it("forgets why a member could not be released, or a spare not be brought, once neither is there", () => {
    const problem = { reason: "MemberFailed", message: "the array is on fire" } as const;
    const failed = after(
      mounted,
      { type: "LeftMembersNotReleased", problem },
      { type: "SparesNotPrepared", message: "away" },
    );
    const found = (state: FoundMember["state"]) =>
      after(failed, { type: "MembersFound", volume, members: [{ name: "m2", state }] });
    expect(found("Leaving").leavingProblem).toEqual(problem);
    expect(found("Removed").leavingProblem).toBeUndefined();
    expect(found("Removed").mounted?.spareProblem).toBe("away");
    const record = recordWithLayout(buildSpanLayout({ members: [buildSpanMember("m0")] }), undefined);
    const spareless = after(
      failed,
      { type: "LayoutRead", record },
      { type: "MembersFound", volume, members: [{ name: "m0", state: "Present" }] },
    );
    expect(spareless.mounted?.spareProblem).toBeUndefined();
  });
});

describe("a volume that is unmounted", () => {
  const reading = buildSampledReading();
  const mounted = (change: VolumeChange = {}): NodeVolumeState =>
    buildVolumeState(span, { held: true, reading, unsettled: { problem: "a balance runs" }, ...change });

  it("by an unstage holds no members, and keeps its reading for the shrink that comes next", () => {
    const state = after(mounted(), { type: "Unmounted" });
    expect(state).toMatchObject({ phase: "Unmounted", mounted: undefined, held: false, reading, unsettled: undefined });
    expect(after(state, { type: "Unstaged" })).toMatchObject({ reading: undefined, recorded: true });
  });

  it("by another process holds its members until they are given back, and has no reading", () => {
    const lost = after(mounted(), { type: "MountLost" });
    expect(lost).toMatchObject({ phase: "Unmounted", held: true, reading: undefined });
    const refused = after(lost, { type: "MembersNotGivenBack", message: "the array is on fire" });
    expect(refused.leavingProblem).toEqual({ reason: "WaitingForMember", message: "the array is on fire" });
    expect(after(refused, { type: "MembersGivenBack" })).toMatchObject({ held: false, leavingProblem: undefined });
  });

  it("stays removed once its member has been deleted, also by an unstage that comes too late", () => {
    const removed = after(mounted(), { type: "Unmounted" }, { type: "MemberDeleted" });
    expect(removed).toMatchObject({ phase: "Removed", sizeBytes: undefined });
    expect(after(removed, { type: "Unmounted" }, { type: "MountLost" }).phase).toBe("Removed");
  });

  it("does not hang, whatever the sampler says too late", () => {
    expect(after(mounted(), { type: "MountLost" }, { type: "Hung" }).mounted).toBeUndefined();
  });

  it("says why it is not given back only while it is not mounted", () => {
    expect(after(mounted(), { type: "MembersNotGivenBack", message: "no" }).leavingProblem).toBeUndefined();
  });
});

describe("a stage that could not be recorded", () => {
  it("leaves the volume held as it was before, at the path where it was", () => {
    const before = newVolumeState({ ...span, stagingPath: "/old" }, true);
    const state = after(
      { ...before, held: false },
      { type: "HoldAnnounced" },
      { type: "StagingStarted", stagingPath: "/new" },
      { type: "StagingNotRecorded", stagingPath: "/old", held: false },
    );
    expect(state).toMatchObject({ held: false, record: { stagingPath: "/old" } });
  });
});

describe("an operation", () => {
  const idle = buildVolumeState(loop, { sizeBytes: 2 * GIB });

  it("is being recorded first, and under way then; the emergency's was recorded in advance", () => {
    const recording = after(idle, started);
    expect(recording).toMatchObject({ running: { phase: "Recording", startedMs: 7 }, record: { operation } });
    expect(after(recording, { type: "OperationRecorded" }).running?.phase).toBe("UnderWay");
    const emergency = { ...started, operation: { ...operation, emergency: true } };
    expect(after(idle, emergency).running?.phase).toBe("UnderWay");
  });

  it("that could not begin leaves no trace", () => {
    const state = after(idle, started, { type: "OperationRevoked" });
    expect([state.running, state.record.operation, state.sizeBytes]).toEqual([undefined, undefined, 2 * GIB]);
  });

  it("says itself how far it has come: a measure meanwhile changes no size, but says that the member exists", () => {
    const state = after(
      idle,
      started,
      { type: "StepReached", sizeBytes: 1.5 * GIB, step: "shrunk to 1.5Gi" },
      { type: "SizeMeasured", sizeBytes: 2 * GIB },
    );
    expect(state).toMatchObject({ sizeBytes: 1.5 * GIB, record: { memberMade: true } });
    expect(state.running?.operation.step).toBe("shrunk to 1.5Gi");
  });

  it("ends with its size, its target and its moment, and what came into the record meanwhile stays", () => {
    const decidedAt = "2026-01-01T00:00:00Z";
    const meanwhile = { type: "TrimConcluded", lastTrim: { endedAt: at, trimmed: "1Gi" } } as const;
    const state = after(idle, started, meanwhile, endOf({ decidedAt }));
    expect(state).toMatchObject({ running: undefined, sizeBytes: GIB, operationEndedMs: 9 });
    expect(state.record).toMatchObject({
      ...{ operation: undefined, endedDecidedAt: decidedAt },
      ...{ lastOperation: { outcome: "Succeeded" }, lastTrim: meanwhile.lastTrim },
    });
  });

  it("of an emergency ends no target", () => {
    const before = buildVolumeState({ ...loop, endedDecidedAt: "2025-12-31T00:00:00Z" });
    expect(after(before, started, endOf()).record.endedDecidedAt).toBe("2025-12-31T00:00:00Z");
  });

  it.each<[string, object, Partial<LastOperation>, object | undefined]>([
    ["are of one size after a success", {}, {}, undefined],
    ["stay unknown after one that went before another command", { agrees: false }, {}, { problem: "a balance runs" }],
    ["stay unknown after a failure", {}, { outcome: "Failed" }, { problem: "a balance runs" }],
  ])("leaves its member and filesystem so that they %s", (_what, change, last, unsettled) => {
    const before = buildVolumeState(loop, { unsettled: { problem: "a balance runs" } });
    expect(after(before, started, { ...endOf(last), ...change }).unsettled).toEqual(unsettled);
  });

  it("that failed leaves them unsettled, also where they were of one size before", () => {
    expect(after(idle, started, endOf({ outcome: "Failed" })).unsettled).toEqual({ problem: undefined });
  });
});

describe("any sequence of events", () => {
  const mounts = [buildMount(span), buildMount(span)] as const;
  const unstage = new Cancellation({ because: "Unstage" });
  const agentEnds = new Cancellation({ because: "AgentEnds" });
  /** Some are of the state that they come to, as those that dispatch them see it. */
  const EVENTS: readonly ((state: NodeVolumeState) => VolumeEvent)[] = [
    ...mounts.map((volume) => () => ({ type: "Mounted", volume }) as const),
    ...mounts.map((volume) => () => ({ type: "MembersFound", volume, members: [] }) as const),
    ...mounts.map((volume) => () => ({ type: "MovingChecked", volume, immovable: "snapshots" }) as const),
    ({ record }) => ({ type: "LayoutRead", record: { ...record, epoch: record.epoch + 1 } }),
    () => ({ type: "Unmounted" }),
    () => ({ type: "MountLost" }),
    () => ({ type: "Unstaged" }),
    () => ({ type: "MemberDeleted" }),
    () => ({ type: "Hung" }),
    () => ({ type: "FoundReadOnly", nowMs: 1 }),
    () => ({ type: "SizeMeasured", sizeBytes: 3 * GIB }),
    () => ({ type: "NotSettled", message: "a balance runs" }),
    () => started,
    () => ({ ...started, operation: buildRunning("Extend").operation }),
    () => ({ type: "OperationRecorded" }),
    () => ({ type: "OperationRevoked" }),
    () => ({ type: "StepReached", sizeBytes: GIB, step: "shrunk" }),
    () => endOf(),
    () => endOf({ outcome: "Failed" }),
    () => ({ type: "TrimStarted" }),
    () => ({ type: "TrimEnded" }),
    () => ({ type: "CancelRequested", cancellation: unstage }),
    () => ({ type: "CancelRequested", cancellation: agentEnds }),
  ];

  property(
    "leaves one operation at most, recorded and with its first cancellation, and nothing of a mount that is no more",
    { runs: 500, reaches: { "one operation": 0.1, "a cancellation that stays": 0.1, "no mount": 0.5 } },
    [fc.array(fc.constantFrom(...EVENTS), { minLength: 10, maxLength: 60 })],
    (reach, events) => {
      let state = Object.freeze(newVolumeState(span, true));
      for (const eventOf of events) {
        const before = state;
        const event = eventOf(before);
        if (event.type === "OperationStarted" && before.running !== undefined) {
          expect(() => reduce(before, event)).toThrow("bug");
          reach("one operation");
          continue;
        }
        if (event.type === "TrimStarted" && before.trim !== undefined) continue;
        state = Object.freeze(reduce(before, event));
        expect(state.handle).toBe(before.handle);
        if (state.running !== undefined) expect(state.record.operation).toBeDefined();
        const cancelled = before.running?.cancellation;
        if (cancelled !== undefined && state.running !== undefined) {
          expect(state.running.cancellation).toBe(cancelled);
          reach("a cancellation that stays");
        }
        expect(state.mounted !== undefined).toBe(state.phase === "Mounted");
        if (event.type === "Unmounted" || event.type === "MountLost") {
          expect([state.mounted, state.unsettled]).toEqual([undefined, undefined]);
          reach("no mount");
        }
        if ("volume" in event && event.type !== "Mounted" && before.mounted?.volume !== event.volume)
          expect(state).toBe(before);
      }
    },
  );
});
