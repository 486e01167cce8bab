// What the engine reads back of a week from a real Prometheus, whose samples lie in its database before it starts.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { freePort } from "../../../demo/show/run/free-port.ts";
import { createRunDirectory, removeRun } from "../../../demo/show/run/run-directory.ts";
import { systemClock } from "../../../src/platform/process/clock.ts";
import { createCommandPort } from "../../../src/platform/process/effects/command-port.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { UsageHistory } from "../../../src/policy-engine/facts/usage-history.ts";
import { createPrometheusSource } from "../../../src/policy-engine/gather/prometheus/prometheus.ts";
import { connectToPrometheus } from "../../../src/policy-engine/gather/prometheus/prometheus-server.ts";
import { createPrometheus, type Prometheus } from "../../harness/prometheus.ts";
import { describeReal } from "../../harness/real-parts.ts";

const HOUR_MS = 3_600_000;
const NOW_MS = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
const SCRAPE_MS = 60_000;
const PEAK_BYTES = 900;

/** OpenMetrics of one series: a scrape a minute, from so many hours ago to so many. */
function seriesOf(
  instance: string,
  fromHours: number,
  toHours: number,
  used: (hoursAgo: number) => number | string,
): string {
  const labels = `namespace="default",persistentvolumeclaim="moved",instance="${instance}"`;
  const lines: string[] = [];
  for (let atMs = NOW_MS - fromHours * HOUR_MS; atMs < NOW_MS - toHours * HOUR_MS; atMs += SCRAPE_MS)
    lines.push(`tidemark_filesystem_used_bytes{${labels}} ${used((NOW_MS - atMs) / HOUR_MS)} ${atMs / 1000}\n`);
  return lines.join("");
}

describeReal("the history of a claim in a real Prometheus", ["prometheus"], () => {
  const commands = createCommandPort(directEffects);
  let base: string;
  let directory: string;
  let prometheus: Prometheus;

  beforeEach(async () => {
    base = mkdtempSync(join(tmpdir(), "prometheus-history-"));
    directory = createRunDirectory(base);
    prometheus = await createPrometheus(directory, await freePort(), []);
  });
  afterEach(async () => {
    await removeRun(directory, commands);
    rmSync(base, { recursive: true });
  });

  async function startWith(...series: readonly string[]): Promise<void> {
    const page = join(directory, "history.txt");
    const database = join(directory, "prometheus");
    mkdirSync(database, { recursive: true });
    writeFileSync(page, `# TYPE tidemark_filesystem_used_bytes gauge\n${series.join("")}# EOF\n`);
    execFileSync("/usr/bin/promtool", ["tsdb", "create-blocks-from", "openmetrics", "--quiet", page, database]);
    await prometheus.start();
  }

  async function hoursOf(nowMs: number) {
    const source = createPrometheusSource(connectToPrometheus({ url: prometheus.url }), SCRAPE_MS, systemClock);
    const maxima = await source.hourlyMaxima(["default/moved", "default/another"], nowMs);
    await source.close();
    return maxima.get("default/moved") ?? [];
  }

  it("B7: has the hour that has begun, so that an engine which starts before its end knows every window", async () => {
    const nowMs = NOW_MS - 60_000;
    const peak = (hoursAgo: number): number => (hoursAgo > 0.1 && hoursAgo < 0.3 ? PEAK_BYTES : 100);
    await startWith(seriesOf("m-node", 30, 0, peak));
    const hours = await hoursOf(nowMs);
    const history = new UsageHistory();
    history.backfill(hours, nowMs);
    for (const windowHours of [1, 6, 19, 24])
      expect([windowHours, history.maxUsedBytes(windowHours * HOUR_MS, nowMs)]).toEqual([windowHours, PEAK_BYTES]);
  });

  it.each([
    ["sorts before", "a-node"],
    ["sorts after", "z-node"],
  ])(
    "has its peak where another agent, whose series %s that of the peak, tells of less in the same hour",
    async (_how, other) => {
      const peak = (hoursAgo: number): number => (hoursAgo > 4 && hoursAgo <= 5 ? PEAK_BYTES : 100);
      await startWith(
        seriesOf("m-node", 30, 3, peak),
        seriesOf(other, 6, 0, () => 10),
      );
      const hours = await hoursOf(NOW_MS);
      const history = new UsageHistory();
      history.backfill(hours, NOW_MS);
      expect(history.maxUsedBytes(24 * HOUR_MS, NOW_MS)).toBe(PEAK_BYTES);
    },
  );

  it.each(["NaN", "+Inf", "-1", "1e300"])(
    "has its peak where another agent says %s of the same hour",
    async (other) => {
      const peak = (hoursAgo: number): number => (hoursAgo > 4 && hoursAgo <= 5 ? PEAK_BYTES : 100);
      await startWith(
        seriesOf("m-node", 30, 0, peak),
        seriesOf("a-node", 6, 3, () => other),
      );
      const history = new UsageHistory();
      history.backfill(await hoursOf(NOW_MS), NOW_MS);
      expect(history.maxUsedBytes(24 * HOUR_MS, NOW_MS)).toBe(PEAK_BYTES);
    },
  );
});
