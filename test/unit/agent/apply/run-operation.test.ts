import { describe, expect, it } from "@jest/globals";
import { pino } from "pino";
import type { OperationEnvironment } from "../../../../src/agent/apply/record-operation.ts";
import { createOperationRunner, EMERGENCY_RETRY_MS } from "../../../../src/agent/apply/run-operation.ts";
import { spendEmergency } from "../../../../src/agent/apply/spend-emergency.ts";
import { grantRead } from "../../../../src/agent/decide/decide-emergency.ts";
import type { AgentMetrics } from "../../../../src/agent/metrics.ts";
import type { StatusReporter } from "../../../../src/agent/report/status-reporter.ts";
import { createSampleSink } from "../../../../src/agent/sampling/sample-sink.ts";
import type { Sampler } from "../../../../src/agent/sampling/sampler.ts";
import type { MountedVolume, Storage } from "../../../../src/agent/storage/storage.ts";
import { StorageError } from "../../../../src/agent/storage/storage-error.ts";
import type { NodeRecord } from "../../../../src/agent/volumes/node-records.ts";
import { saveRecord } from "../../../../src/agent/volumes/node-volume.ts";
import type { NodeVolumeState } from "../../../../src/agent/volumes/volume-state.ts";
import { volumeHandleOf } from "../../../../src/contracts/identity.ts";
import type { LastOperation, Operation } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { VOLUME_UID } from "../../../builders/filesystem-layout.ts";
import { buildVolume, type VolumeChange } from "../../../builders/node-volume.ts";
import { buildSampledReading } from "../../../builders/sampled-reading.ts";
import { eventually } from "../../../harness/wait-for.ts";

const NOW_MS = Date.parse("2026-01-01T00:00:00Z");
const BOOT = "boot-a";
const HOUR_MS = 3_600_000;
const log = pino({ level: "silent" });
const NEARLY_FULL_READING = buildSampledReading({ sampledAtMs: NOW_MS, takenMs: 1000, availableBytes: 100 * MIB });
const operationOf = (kind: Operation["kind"], to: string): Operation => ({
  kind,
  from: "1Gi",
  to,
  epoch: 3,
  decidedAt: "2026-01-01T00:00:00Z",
  startedAt: "2026-01-01T00:00:00Z",
  step: "waiting",
});

/** A nearly full filesystem with a grant, on a node whose API server takes requests and never answers. */
function nearlyFull(change: VolumeChange = {}) {
  const record: NodeRecord = {
    backend: "loop",
    handle: volumeHandleOf(VOLUME_UID),
    fsType: "btrfs",
    memberName: "m0",
    memberFile: "m0.img",
    memberMade: true,
    epoch: 3,
    grant: { size: "2Gi", minAvailable: "200Mi", expiry: "2026-01-02T00:00:00Z", epoch: 3 },
  };
  const volume = buildVolume(record, { sizeBytes: GIB, ...change });
  const done: string[] = [];
  const storage = {
    members: async () => [],
    extend: async (_volume: MountedVolume, sizeBytes: number) => {
      done.push(`extended to ${sizeBytes / GIB} GiB`);
      return sizeBytes;
    },
    shrink: async () => {
      throw new Error("a shrink that was given up must never begin");
    },
  } as Partial<Storage> as Storage;
  const environment: OperationEnvironment = {
    storage,
    records: { readAll: () => [], write: async () => undefined, remove: async () => undefined },
    reporter: {
      report: () => new Promise(() => undefined),
      operationEnded: () => undefined,
    } as Partial<StatusReporter> as StatusReporter,
    sampler: { operation: () => undefined } as Partial<Sampler> as Sampler,
    metrics: { operationEnded: () => undefined } as Partial<AgentMetrics> as AgentMetrics,
    clock: { nowMs: () => NOW_MS, monotonicMs: () => 1000 },
    log,
    ended: () => undefined,
  };
  const runner = createOperationRunner(environment);
  const read = (): void =>
    createSampleSink({
      volumes: new Map([[volume.handle, volume]]),
      sampleOf: () => undefined,
      offer: () => undefined,
      spendEmergency: (one) => void spendEmergency({ runner, clock: environment.clock, bootID: BOOT, log }, one),
      changed: () => undefined,
      log,
    }).readings([{ handle: volume.handle, reading: NEARLY_FULL_READING }]);
  return { volume, runner, done, read, environment };
}

describe("an emergency", () => {
  it.each(["Shrink", "Extend"] as const)(
    "never waits for an API server that does not answer the start of a decided %s",
    async (kind) => {
      const { volume, runner, done, read } = nearlyFull();
      const start = runner.start(volume, operationOf(kind, kind === "Shrink" ? "512Mi" : "1200Mi"), "Anew");
      start.catch(() => undefined);
      read();
      await expect(start).rejects.toThrow("given up before it began");
      await eventually("the emergency extend", () => done.length > 0);
      expect(done).toEqual(["extended to 2 GiB"]);
      expect(volume.state.sizeBytes).toBe(2 * GIB);
    },
  );

  it.each([
    ["an hour ahead", HOUR_MS],
    ["an hour behind", -HOUR_MS],
    ["a day ahead", 24 * HOUR_MS],
    ["a day behind", -24 * HOUR_MS],
  ])("is met on the first reading after the node's clock was set to %s", async (_what, aheadMs) => {
    const reading = { ...NEARLY_FULL_READING, sampledAtMs: NOW_MS + aheadMs };
    const { volume, done, environment } = nearlyFull({ operationEndedMs: 900, emergencyRetryMs: 1000, reading });
    const { record } = volume.state;
    const read = grantRead(record.grant, undefined, 0, BOOT);
    volume.dispatch({ type: "LayoutRead", record: { ...record, grantRead: read } });
    const clock = { ...environment.clock, nowMs: () => NOW_MS + aheadMs };
    const runner = createOperationRunner({ ...environment, clock });
    await spendEmergency({ runner, clock, bootID: BOOT, log }, volume);
    await eventually("the emergency extend", () => done.length > 0);
    expect(done).toEqual(["extended to 2 GiB"]);
  });
});

describe("an emergency extend that fails after its member has grown", () => {
  /** The first extend makes the member larger and then fails; the following ones succeed. */
  const withHalfExtend = () => {
    const parts = nearlyFull();
    const { storage } = parts.environment;
    let [memberBytes, attempts, monotonicMs] = [GIB, 0, 0];
    const half: Partial<Storage> = {
      sizeBytes: async () => memberBytes,
      extend: async (volume, sizeBytes) => {
        memberBytes = sizeBytes;
        attempts += 1;
        if (attempts === 1) throw new StorageError("CommandFailed", "btrfs did not start (EAGAIN)");
        return storage.extend(volume, sizeBytes);
      },
    };
    const clock = { nowMs: () => NOW_MS, monotonicMs: () => monotonicMs };
    const runner = createOperationRunner({ ...parts.environment, storage: { ...storage, ...half }, clock });
    const readAt = async (atMs: number) => {
      monotonicMs = atMs;
      parts.volume.dispatch({ type: "ReadingArrived", reading: { ...NEARLY_FULL_READING, takenMs: atMs } });
      await spendEmergency({ runner, clock, bootID: BOOT, log }, parts.volume);
      await eventually("its end", () => parts.volume.state.running === undefined);
    };
    return { ...parts, readAt };
  };

  it("is tried again after a moment, although the member has the granted size", async () => {
    const { volume, done, readAt } = withHalfExtend();
    await readAt(1000);
    expect(volume.state.record.lastOperation).toMatchObject({ outcome: "Failed", reached: "2Gi" });
    expect(volume.state.sizeBytes).toBe(2 * GIB);
    await readAt(1000 + EMERGENCY_RETRY_MS - 1);
    expect(done).toEqual([]);
    await readAt(1000 + EMERGENCY_RETRY_MS);
    expect(done).toEqual(["extended to 2 GiB"]);
    await readAt(1000 + 2 * EMERGENCY_RETRY_MS);
    expect(done).toEqual(["extended to 2 GiB"]);
  });
});

describe("an extend that is taken up again while a command of a dead agent still runs", () => {
  it("looks once and begins; the two are made to agree after that", async () => {
    const { volume, done, environment } = nearlyFull();
    const recover = async (_volume: MountedVolume, signal?: AbortSignal): Promise<number> => {
      if (signal?.aborted !== true) return new Promise(() => undefined);
      throw new StorageError("DeviceBusy", "a resize of a former agent still runs");
    };
    const runner = createOperationRunner({
      ...environment,
      storage: { ...environment.storage, recover },
      reporter: { ...environment.reporter, report: async () => undefined },
    });
    await runner.start(volume, operationOf("Extend", "2Gi"), "Resumed");
    await eventually("its end", () => volume.state.running === undefined);
    expect(done).toEqual(["extended to 2 GiB"]);
    expect(volume.state).toMatchObject({
      unsettled: { problem: undefined },
      record: { lastOperation: { outcome: "Succeeded" } },
    });
  });
});

describe("an extend that is stopped while it waits for a device", () => {
  it.each([
    [
      "is a growth in vain where the disk fills, so that the operator looks for another way",
      { because: "DeviceLate" },
      true,
    ],
    [
      "says nothing of the device where it gives way to a spare",
      { because: "EmergencyExtend", availableBytes: MIB },
      false,
    ],
  ] as const)("%s", async (_what, cause, isVain) => {
    const { volume, environment } = nearlyFull();
    const extend: Storage["extend"] = (_volume, _sizeBytes, signal) =>
      new Promise((_, reject) => {
        signal?.addEventListener("abort", () => reject(new StorageError("WaitingForMember", "m0 has 1Gi")));
      });
    const reporter = { ...environment.reporter, report: async () => undefined };
    const storage = { ...environment.storage, extend, sizeBytes: async () => GIB };
    const runner = createOperationRunner({ ...environment, storage, reporter });
    await runner.start(volume, operationOf("Extend", "2Gi"), "Anew");
    volume.cancel(cause);
    await eventually("its end", () => volume.state.running === undefined);
    expect(volume.state.record.lastOperation).toMatchObject({ outcome: "Failed" });
    expect(volume.state.record.lastOperation?.reason).toBe(isVain ? "WaitingForMember" : undefined);
  });
});

describe("an operation whose record cannot be written", () => {
  const full = Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
  const withFullDisk = () => {
    const parts = nearlyFull();
    const { environment } = parts;
    const report = async (): Promise<void> => undefined;
    const records = { ...environment.records, write: () => Promise.reject(full) };
    const runner = createOperationRunner({
      ...environment,
      records,
      reporter: { ...environment.reporter, report },
    });
    return { ...parts, runner };
  };

  it.each(["Extend", "Shrink"] as const)("never begins: no %s without its record", async (kind) => {
    const { volume, runner, done } = withFullDisk();
    await expect(runner.start(volume, operationOf(kind, "2Gi"), "Anew")).rejects.toThrow("ENOSPC");
    await eventually("the end of the attempt", () => volume.state.running === undefined);
    expect(done).toEqual([]);
    expect(volume.state.record.operation).toBeUndefined();
  });

  it("is told of in the volume's state, with what to do, until a record can be written", async () => {
    const { volume, runner } = withFullDisk();
    await expect(runner.start(volume, operationOf("Extend", "2Gi"), "Anew")).rejects.toThrow("ENOSPC");
    expect(volume.state.recordProblem).toMatch(/^free space or inodes \(df, df -i\).*ENOSPC.*retrying$/);
    await saveRecord({ write: async () => undefined }, volume, "ProcessDeath");
    expect(volume.state.recordProblem).toBeUndefined();
  });

  it("begins all the same when it is an emergency, whose grant was recorded in advance", async () => {
    const { volume, runner, done } = withFullDisk();
    await runner.start(volume, { ...operationOf("Extend", "2Gi"), emergency: true }, "Anew");
    await eventually("the emergency extend", () => done.length > 0 && volume.state.running === undefined);
    expect(done).toEqual(["extended to 2 GiB"]);
  });
});

describe("an interrupted shrink that nobody wants any more", () => {
  it.each([
    ["had reached its size by then, and succeeded", GIB / 2, "Succeeded"],
    ["had not reached its size, and is called off", GIB, "Cancelled"],
  ])("%s", async (_which, sizeBytes, outcome) => {
    const { volume, runner } = nearlyFull({ sizeBytes });
    await runner.abandon(volume, operationOf("Shrink", "512Mi"), "another size has been decided since");
    expect(volume.state.record.lastOperation).toMatchObject({ outcome, kind: "Shrink" });
  });
});

describe("the end of an operation", () => {
  const present = (name: string) => ({ name, state: "Present", sizeBytes: GIB }) as const;
  const extendedWith = async (members: Storage["members"]) => {
    const { volume, environment } = nearlyFull({ members: [present("m0")] });
    const told: string[][] = [];
    const runner = createOperationRunner({
      ...environment,
      storage: { ...environment.storage, members },
      reporter: {
        report: async () => undefined,
        operationEnded: (one: NodeVolumeState) => void told.push(one.mounted?.members.map(({ name }) => name) ?? []),
      } as Partial<StatusReporter> as StatusReporter,
    });
    await runner.start(volume, operationOf("Extend", "2Gi"), "Anew");
    await eventually("its end", () => volume.state.running === undefined);
    return { volume, told };
  };

  it("is told together with the members that have come with it", async () => {
    const { told } = await extendedWith(async () => [present("m0"), present("m1")]);
    expect(told).toEqual([["m0", "m1"]]);
  });

  it("does not wait for members that cannot be listed: those of before stand until the next look", async () => {
    const { volume, told } = await extendedWith(() => Promise.reject(new Error("no answer")));
    expect(told).toEqual([["m0"]]);
    expect(volume.state.record.lastOperation).toMatchObject({ outcome: "Succeeded", reached: "2Gi" });
  });
});

it("an extend that a device ends which carries something says so in one word: the operator makes another member", async () => {
  const { volume, environment } = nearlyFull();
  const extend = () => Promise.reject(new StorageError("SignatureFound", "m1 carries ext4"));
  environment.reporter.report = async () => undefined;
  const runner = createOperationRunner({
    ...environment,
    storage: { ...environment.storage, extend, sizeBytes: async () => GIB },
  });
  await runner.start(volume, operationOf("Extend", "2Gi"), "Anew");
  await eventually("its end", () => volume.state.running === undefined);
  expect(volume.state.record.lastOperation).toMatchObject({ outcome: "Failed", reason: "SignatureFound" });
});

describe("a shrink for which no data may be moved", () => {
  it.each([
    ["why, with its end", { immovable: "it has 3 snapshots" }, "DataImmovable", "it has 3 snapshots"],
    ["its floor alone where it is one of use", {}, "ShrinkFloorReached", undefined],
  ])("says %s", async (_what, cause, reason, immovable) => {
    const { volume, runner, environment } = nearlyFull();
    environment.reporter.report = async () => undefined;
    const floor = {
      outcome: "FloorReached",
      sizeBytes: GIB,
      floorBytes: GIB,
      usedBytes: MIB,
      message: "m0 stays",
    } as const;
    environment.storage.shrink = async () => ({ ...floor, ...cause });
    await runner.start(volume, operationOf("Shrink", "512Mi"), "Anew");
    await eventually("its end", () => volume.state.running === undefined);
    expect(volume.state.record.lastOperation).toMatchObject({
      outcome: "FloorReached",
      reason,
      floor: "1Gi",
      used: "1Mi",
    });
    expect(volume.state.mounted?.moving?.immovable).toBe(immovable);
  });
});

describe("a shrink that takes a replacement back", () => {
  const floor: LastOperation = {
    ...{ kind: "Shrink", from: "3Gi", to: "1Gi", reached: "3Gi", epoch: 3, decidedAt: "2025-12-31T23:59:59.999Z" },
    ...{ outcome: "FloorReached", reason: "DataImmovable", message: "m0 stays", floor: "3Gi", used: "1Mi" },
    ...{ startedAt: "2025-12-31T23:59:59Z", endedAt: "2025-12-31T23:59:59Z" },
  };

  it.each<[string, LastOperation, object]>([
    [
      "tells on what that has found",
      floor,
      { floor: "1Gi", used: "1Mi", reason: "DataImmovable", message: "m0 stays" },
    ],
    ["is one that nobody has decided anew", { ...floor, decidedAt: "2025-12-31T23:59:59.998Z" }, { floor: undefined }],
    ["is of one that found no floor", { ...floor, outcome: "Cancelled" }, { floor: undefined }],
  ])("%s", async (_what, lastOperation, expected) => {
    const { volume, runner, environment } = nearlyFull();
    environment.reporter.report = async () => undefined;
    environment.storage.shrink = async () => ({ outcome: "Succeeded", sizeBytes: GIB });
    environment.storage.trim = async () => 0;
    const { handle, epoch } = volume.state.record;
    const record: NodeRecord = { backend: "span", fsType: "btrfs", members: [], memberMade: true, handle, epoch };
    volume.dispatch({ type: "LayoutRead", record: { ...record, lastOperation } });
    await runner.start(volume, { ...operationOf("Shrink", "1Gi"), from: "3Gi" }, "Anew");
    await eventually("its end", () => volume.state.running === undefined);
    const ended = { outcome: "Succeeded", reached: "1Gi", floor: undefined, ...expected };
    expect({ floor: undefined, ...volume.state.record.lastOperation }).toMatchObject(ended);
  });
});
