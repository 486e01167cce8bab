// An agent that lies, by a bug or with a stolen token: what it says of its own volumes, and of others'.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { Sample } from "../../../src/contracts/gen/tidemark/samples/v1/samples.ts";
import { FILESYSTEMS } from "../../../src/contracts/kinds/filesystem.ts";
import { GIB, MIB } from "../../../src/contracts/quantities/quantity.ts";
import { waitFor } from "../../harness/wait-for.ts";
import {
  applyPolicy,
  type Cluster,
  type EngineUnderTest,
  makeVolume,
  sample,
  startCluster,
  startEngine,
  untilFilesystem,
} from "./engine-under-test.ts";

const BREATHING = {
  limits: { min: "1Gi", max: "10Gi", minAvailable: "64Mi" },
  mode: { extend: "Enforce" as const, shrink: "Enforce" as const },
  rules: [
    { name: "extend-at-80", action: "Extend" as const, when: "volume.usedRatio >= 0.8", targetUsed: "60%" },
    { name: "shrink-below-30", action: "Shrink" as const, when: "volume.usedRatioMax('1s') < 0.3", targetUsed: "50%" },
  ],
  behavior: { extend: { minStep: "256Mi" }, shrink: { stabilization: "0s", cooldown: "1s", minStep: "256Mi" } },
};
const HUGE = Number.MAX_SAFE_INTEGER;
const SIZE = { sizeBytes: 4 * GIB, usedBytes: 400 * MIB };
const LIES: readonly [string, (honest: Sample) => Partial<Sample>][] = [
  ["more available than there is", ({ capacityBytes }) => ({ availableBytes: 2 * capacityBytes })],
  ["negative bytes", () => ({ availableBytes: -GIB })],
  ["no capacity", () => ({ capacityBytes: 0, availableBytes: 0 })],
  ["a negative capacity", () => ({ capacityBytes: -HUGE, availableBytes: -HUGE })],
  ["absurd sizes", () => ({ sizeBytes: HUGE, capacityBytes: HUGE, availableBytes: HUGE })],
  ["growth that is not a number", () => ({ growthBytesPerSecond: Number.NaN, peakWriteBytesPerSecond: Number.NaN })],
  ["a peak without end", () => ({ peakWriteBytesPerSecond: Number.POSITIVE_INFINITY })],
  ["less than no free bytes on its node", () => ({ nodeFreeBytes: -1, ioUtilizationRatio: Number.NaN })],
  ["a time in the far future", () => ({ sampledAtMs: HUGE, lastOperationEndedAtMs: HUGE })],
  ["a time before all time", () => ({ sampledAtMs: -HUGE, lastOperationEndedAtMs: -HUGE })],
  ["inodes that there are not", () => ({ inodesTotal: 1, inodesUsed: HUGE })],
  ["profiles that there are not", () => ({ dataProfiles: 0xffffffff })],
];

describe("an agent that lies", () => {
  let cluster: Cluster;
  let engine: EngineUnderTest;
  beforeAll(async () => {
    cluster = await startCluster();
    await applyPolicy(cluster, "breathing", BREATHING);
  });
  beforeEach(async () => {
    engine = await startEngine(cluster);
    await waitFor("leadership", () => (engine.leadership.isLeader() ? true : undefined));
  });
  afterEach(() => engine.stop());
  afterAll(() => cluster.stop());

  const target = async (name: string) =>
    (await cluster.client.get(FILESYSTEMS, { namespace: "default", name }))?.spec.target;
  /** The engine lives, and decides on what is told honestly. */
  const untilExtended = async (name: string): Promise<void> => {
    const handle = await makeVolume(cluster, name, GIB);
    engine.sendSamples([sample(handle, { sizeBytes: GIB, usedBytes: 850 * MIB })]);
    await untilFilesystem(cluster, name, "an extend", ({ spec }) => spec.target?.size === "1417Mi");
  };

  it.each(LIES)("with %s changes no size, and ends no engine", async (what, lie) => {
    const name = `lied-${LIES.findIndex(([one]) => one === what)}`;
    const handle = await makeVolume(cluster, name, SIZE.sizeBytes);
    // The same without the lie is shrunk meanwhile.
    const honestName = `honest-${name}`;
    const honestHandle = await makeVolume(cluster, honestName, SIZE.sizeBytes);
    await waitFor(
      "a shrink of what is honest",
      async () => {
        const honest = sample(handle, SIZE);
        engine.sendSamples([{ ...honest, ...lie(honest) }, sample(honestHandle, SIZE)]);
        return target(honestName);
      },
      { intervalMs: 100 },
    );
    expect(await target(name)).toBeUndefined();
    await untilExtended(`extended-${name}`);
  });

  it("about volumes of others is not heard, and is named in the log once", async () => {
    const strange = "fs-0a1b2c3d-0000-4000-8000-00000000000a";
    for (let sent = 0; sent < 100; sent += 1) engine.sendSamples([sample(strange, { sizeBytes: GIB, usedBytes: GIB })]);
    await untilExtended("beside-strangers");
    const warnings = engine.lines.filter((line) => JSON.stringify(line).includes(strange));
    expect(warnings).toHaveLength(1);
    expect(JSON.stringify(warnings)).toMatch(/agent of node node-1/);
  });

  it("thousands of times a second is heard as often as an agent samples, and named in the log once", async () => {
    const handle = await makeVolume(cluster, "flooded", GIB);
    for (let batch = 0; batch < 200; batch += 1)
      engine.sendSamples(
        Array.from({ length: 100 }, (_, index) =>
          sample(handle, { sizeBytes: GIB, usedBytes: 500 * MIB, sampledAtMs: Date.now() + batch * 100 + index }),
        ),
      );
    await untilExtended("beside-a-flood");
    const warnings = engine.lines.filter((line) => JSON.stringify(line).includes("samples of"));
    expect(warnings).toHaveLength(1);
    expect(JSON.stringify(warnings)).toContain(handle);
  });
});
