import { execFileSync } from "node:child_process";
import { expect, it } from "@jest/globals";
import { recordWithLayout } from "../../../src/agent/gather/layout-record.ts";
import { createAgentMetrics } from "../../../src/agent/metrics.ts";
import type { SampledReading } from "../../../src/contracts/reading.ts";
import { buildLayout } from "../../builders/filesystem-layout.ts";
import { buildVolume, type VolumeChange } from "../../builders/node-volume.ts";
import { describeReal } from "../../harness/real-parts.ts";

const NOW_MS = 1_000_000;
const reading: SampledReading = {
  sampledAtMs: NOW_MS - 1000,
  takenMs: NOW_MS - 1000,
  capacityBytes: 1000,
  availableBytes: 400,
  inodesTotal: 50,
  inodesUsed: 7,
  dataProfiles: 0,
  growthBytesPerSecond: 0,
  peakWriteBytesPerSecond: 0,
};

function metricsOf(change: VolumeChange = {}) {
  const volume = buildVolume(recordWithLayout(buildLayout(), undefined), { reading, ...change });
  return createAgentMetrics({
    volumes: new Map([[volume.handle, volume]]),
    claims: () => [],
    clock: { nowMs: () => NOW_MS, monotonicMs: () => NOW_MS },
    strandedThreads: () => 0,
    strandedCommands: () => 0,
    connectedEngines: () => 2,
  });
}

describeReal("the agent's metrics", ["prometheus"], () => {
  it("follow Prometheus' conventions", async () => {
    const metrics = metricsOf();
    metrics.operationEnded({
      kind: "Extend",
      from: "1Gi",
      to: "2Gi",
      reached: "2Gi",
      epoch: 1,
      outcome: "Succeeded",
      startedAt: "2026-01-01T00:00:00.000Z",
      endedAt: "2026-01-01T00:00:00.040Z",
    });
    const input = await metrics.registry.metrics();
    expect(execFileSync("promtool", ["check", "metrics"], { input, encoding: "utf8" })).toBe("");
    expect(input).toContain(
      'tidemark_filesystem_operation_duration_seconds_bucket{le="0.05",kind="Extend",outcome="Succeeded"} 1',
    );
  });

  it("show a filesystem's figures under its claim's name", async () => {
    const text = await metricsOf().registry.metrics();
    const labels = '{namespace="shop",persistentvolumeclaim="data"}';
    expect(text).toContain(`tidemark_filesystem_capacity_bytes${labels} 1000`);
    expect(text).toContain(`tidemark_filesystem_used_bytes${labels} 600`);
    expect(text).toContain(`tidemark_filesystem_available_bytes${labels} 400`);
    expect(text).toContain(`tidemark_filesystem_inodes${labels} 50`);
    expect(text).toContain(`tidemark_filesystem_inodes_used${labels} 7`);
  });

  it.each<[string, VolumeChange]>([
    ["that hangs", { hung: true }],
    ["that was never read", { reading: undefined }],
    ["whose last reading is old", { reading: { ...reading, takenMs: NOW_MS - 60_000 } }],
  ])("have no series of a filesystem %s: no data is never 0", async (_which, change) => {
    const text = await metricsOf(change).registry.metrics();
    expect(text).not.toContain("tidemark_filesystem_capacity_bytes{");
  });
});
