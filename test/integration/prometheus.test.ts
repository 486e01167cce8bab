import { execFileSync } from "node:child_process";
import { statfsSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { freePort } from "../../demo/show/run/free-port.ts";
import type { VolumePolicySpec } from "../../src/contracts/kinds/volume-policy.ts";
import { EVENTS } from "../../src/contracts/kubernetes/resources.ts";
import { GIB, MIB } from "../../src/contracts/quantities/quantity.ts";
import { createPrometheus, lintMetrics, type Prometheus } from "../harness/prometheus.ts";
import { describeReal, STACK_PARTS } from "../harness/real-parts.ts";
import { createStack, STACK_PROCESSES, type Stack, type StackOptions } from "../harness/stack.ts";
import {
  applyPolicy,
  capacityBytesOf,
  createVolume,
  filesystemOf,
  labelClaim,
  layoutOf,
  type TestVolume,
  waitForSize,
} from "../harness/volume.ts";
import { waitFor } from "../harness/wait-for.ts";

const MEMBER_BYTES = 512 * MIB;
/** How many evaluations must have passed before "nothing happened" means something. */
const CYCLES = 5;

const POLICY: VolumePolicySpec = {
  mode: { extend: "Enforce", shrink: "Enforce" },
  limits: { min: "512Mi", max: "2Gi" },
  rules: [
    { name: "extend-at-80", action: "Extend", when: "volume.usedRatio >= 0.8", to: "1Gi" },
    { name: "grow", action: "Extend", when: 'volume.labels["size"] == "large"', to: "1Gi" },
    {
      name: "shrink",
      action: "Shrink",
      when: 'volume.labels["size"] == "small" && volume.usedRatio < 0.3',
      to: "512Mi",
    },
  ],
  behavior: {
    extend: { cooldown: "0s", minStep: "16Mi" },
    shrink: { stabilization: "0s", cooldown: "0s", minStep: "16Mi" },
  },
};

/** What an exporter can say about a claim that must not change its size. Each would extend, were it believed. */
const UNUSABLE: readonly (readonly [name: string, series: (claim: string) => string])[] = [
  ["fake-nan", (claim) => page(claim, MEMBER_BYTES, "NaN")],
  ["fake-absent", (claim) => line("capacity_bytes", claim, MEMBER_BYTES)],
  ["fake-stale", (claim) => page(claim, MEMBER_BYTES, 16 * MIB, Date.now() - 120_000)],
  ["fake-future", (claim) => page(claim, MEMBER_BYTES, 16 * MIB, Date.now() + 120_000)],
  ["fake-negative", (claim) => page(claim, MEMBER_BYTES, -MIB)],
  ["fake-infinite", (claim) => page(claim, "+Inf", 16 * MIB)],
  ["fake-contradicting", (claim) => page(claim, 100 * GIB, 16 * MIB)],
];
const USABLE = "fake-usable";
const UNUSABLE_REASON = /^(StaleMetrics|MetricsInconsistent|NotMounted)$/;

function line(name: string, claim: string, value: number | string, atMs?: number): string {
  const labels = `namespace="default",persistentvolumeclaim="${claim}"`;
  return `tidemark_filesystem_${name}{${labels}} ${value}${atMs === undefined ? "" : ` ${atMs}`}\n`;
}

function page(claim: string, capacity: number | string, available: number | string, atMs?: number): string {
  return line("capacity_bytes", claim, capacity, atMs) + line("available_bytes", claim, available, atMs);
}

interface Watched {
  readonly stack: Stack;
  readonly prometheus: Prometheus;
}

async function startWatched(options: StackOptions, exporterPort: number): Promise<Watched> {
  const prometheusPort = await freePort();
  const engineFlags = ["--prometheus", `http://127.0.0.1:${prometheusPort}`, "--scrape-interval", "1s"];
  const stack = await createStack({
    initialSize: "512Mi",
    ...options,
    flags: { "policy-engine": [...engineFlags, "--evaluation-interval", "1s"] },
  });
  const prometheus = await createPrometheus(stack.directory, prometheusPort, [
    { job: "agent", port: stack.httpPorts.agent, dropClaims: "fake-.*" },
    { job: "exporter", port: exporterPort },
  ]);
  await prometheus.start();
  await Promise.all(STACK_PROCESSES.map((name) => stack.start(name)));
  await applyPolicy(stack, "default", POLICY);
  return { stack, prometheus };
}

/** Leaves so many bytes available; the blocks that it takes hold no data. */
function fillUp(volume: TestVolume, leftBytes: number): void {
  const { bavail, bsize } = statfsSync(volume.mountPath);
  execFileSync("fallocate", ["--length", String(bavail * bsize - leftBytes), join(volume.mountPath, "filler")]);
  execFileSync("sync", ["--file-system", volume.mountPath]);
}

/** Waits until the engine has gone round so many more times. */
async function waitForCycles(stack: Stack, count: number): Promise<void> {
  const cycles = async (): Promise<number> => {
    const metrics = await metricsOf(stack, "policy-engine");
    const counts = [...metrics.matchAll(/^tidemark_\w*cycle\w*_count(?:\{[^}]*\})? (\d+)$/gm)];
    return counts.reduce((sum, [, value]) => sum + Number(value), 0);
  };
  const before = await cycles();
  await waitFor(`${count} evaluations`, async () => ((await cycles()) >= before + count ? true : undefined));
}

async function metricsOf(stack: Stack, name: keyof Stack["httpPorts"]): Promise<string> {
  return (await fetch(`http://127.0.0.1:${stack.httpPorts[name]}/metrics`)).text();
}

describeReal("a policy-engine with a real Prometheus", [...STACK_PARTS, "prometheus"], () => {
  let exporter: Server;
  let exporterPort: number;

  beforeAll(async () => {
    exporter = createServer((_request, response) => {
      const good = page(USABLE, MEMBER_BYTES, 16 * MIB);
      response.end(good + UNUSABLE.map(([claim, series]) => series(claim)).join(""));
    });
    await new Promise<void>((resolve) => exporter.listen(0, "127.0.0.1", resolve));
    exporterPort = (exporter.address() as AddressInfo).port;
  });

  afterAll(() => {
    exporter.close();
    exporter.closeAllConnections();
  });

  describe("and no agent that streams", () => {
    let watched: Watched;

    beforeAll(async () => {
      watched = await startWatched({ stream: false }, exporterPort);
    });

    afterAll(() => watched.stack.close());

    it("extends on what the agent's metrics say", async () => {
      const { stack } = watched;
      const volume = await createVolume(stack, "scraped", { request: "512Mi" });
      fillUp(volume, 64 * MIB);
      await waitForSize(stack, volume, GIB);
      // Not in the status: there the next evaluation, which finds it large enough, may have spoken already.
      const told = await waitFor("the Event", async () =>
        (await stack.client.list(EVENTS)).items.find(
          ({ involvedObject, reason }) => involvedObject.name === volume.name && reason === "Extending",
        ),
      );
      expect(told.message).toContain("extend-at-80");
    });

    it("changes no size on series that are NaN, absent, stale, future, negative, infinite or contradicting, and says why", async () => {
      const { stack, prometheus } = watched;
      const usable = await createVolume(stack, USABLE, { request: "512Mi" });
      const volumes = await Promise.all(UNUSABLE.map(([name]) => createVolume(stack, name, { request: "512Mi" })));
      await waitForSize(stack, usable, GIB); // the exporter is believed where it can be
      const nan = 'tidemark_filesystem_available_bytes{persistentvolumeclaim="fake-nan"}';
      await waitFor("a scrape of all", async () => (await prometheus.query(nan))[0] === "NaN" || undefined);
      await waitForCycles(stack, CYCLES);
      await waitFor("a reason for each", async () => {
        const told = await Promise.all(volumes.map((volume) => filesystemOf(stack, volume)));
        return told.every(({ status }) => UNUSABLE_REASON.test(status?.scaling?.reason ?? "")) || undefined;
      });
      const found = await Promise.all(
        volumes.map(async (volume) => ({
          claim: volume.name,
          capacityBytes: capacityBytesOf(volume),
          reason: (await filesystemOf(stack, volume)).status?.scaling?.reason,
        })),
      );
      const reason = expect.stringMatching(UNUSABLE_REASON);
      expect(found).toEqual(UNUSABLE.map(([claim]) => ({ claim, capacityBytes: MEMBER_BYTES, reason })));
    });

    it.each([...STACK_PROCESSES])("serves metrics of %s that promtool finds nothing wrong with", async (name) => {
      expect(lintMetrics(await metricsOf(watched.stack, name))).toBeUndefined();
    });
  });

  describe("that goes down while agents stream", () => {
    let watched: Watched;
    let volume: TestVolume;
    let idle: TestVolume;

    beforeAll(async () => {
      watched = await startWatched({}, exporterPort);
      const { stack, prometheus } = watched;
      idle = await createVolume(stack, "idle", { request: "512Mi", labels: { size: "large" } });
      volume = await createVolume(stack, "streamed", { request: "512Mi" });
      await waitForSize(stack, idle, GIB);
      await waitFor("the emergency grant", async () => (await layoutOf(stack, volume)).spec.emergency);
      await prometheus.stop();
    });

    afterAll(() => watched.stack.close());

    it("does not stop an emergency extend, even with the engine gone too", async () => {
      const { stack } = watched;
      await stack.processes["policy-engine"].stop();
      fillUp(volume, 8 * MIB);
      const { lastOperation } = await waitFor("the emergency extend", async () => {
        const { status } = await layoutOf(stack, volume);
        return status?.lastOperation === undefined ? undefined : status;
      });
      expect(lastOperation).toMatchObject({ kind: "Extend", emergency: true, outcome: "Succeeded" });
      expect(capacityBytesOf(volume)).toBeGreaterThan(MEMBER_BYTES);
    });

    it("stops a shrink, which comes once Prometheus is back", async () => {
      const { stack, prometheus } = watched;
      await stack.start("policy-engine");
      await labelClaim(stack, idle, { size: "small" });
      await waitFor("the hold to be told", async () =>
        (await filesystemOf(stack, idle)).status?.scaling?.reason === "StaleMetrics" ? true : undefined,
      );
      await waitForCycles(stack, CYCLES);
      expect(capacityBytesOf(idle)).toBe(GIB);
      await prometheus.start();
      await waitForSize(stack, idle, MEMBER_BYTES);
    });
  });
});
