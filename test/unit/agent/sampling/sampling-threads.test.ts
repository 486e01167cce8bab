import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { createSamplingThreads, type SamplingThreads } from "../../../../src/agent/sampling/sampling-threads.ts";
import { systemClock } from "../../../../src/platform/process/clock.ts";
import { createLogger } from "../../../../src/platform/process/log.ts";
import { eventually } from "../../../harness/wait-for.ts";

/** Ends within a read of slot 2 the first time, and beats ever after. */
const dyingOnce = (flagPath: string): string => `
import { existsSync, writeFileSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
const beat = () => Atomics.add(workerData.cells, 0, 1);
beat();
if (!existsSync(${JSON.stringify(flagPath)})) {
  writeFileSync(${JSON.stringify(flagPath)}, "");
  Atomics.store(workerData.cells, 1, 3);
  process.exit(1);
}
setInterval(beat, 100);
parentPort.postMessage({ type: "unreadable", slot: 0, message: "at work" });
`;

describe("a sampling thread that ends within a read", () => {
  let directory: string;
  let threads: SamplingThreads | undefined;

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-threads-"));
  });
  afterEach(async () => {
    await threads?.stop();
    rmSync(directory, { recursive: true });
  });

  it("is replaced; no filesystem is said to hang, and no thread to be left behind", async () => {
    const workerPath = join(directory, "worker.mjs");
    writeFileSync(workerPath, dyingOnce(join(directory, "flag")));
    const told: string[] = [];
    threads = createSamplingThreads({
      hungAfterMs: 60_000, // longer than a busy machine takes to end a thread and to begin one
      workerPath,
      clock: systemClock,
      log: createLogger("test", "silent"),
      started: () => told.push("started"),
      received: () => told.push("received"),
      hung: (slot, hung) => told.push(`${slot} hung: ${hung}`),
    });
    const { stranded, working } = threads;
    const unhealthy: string[] = [];
    await eventually("the second thread", () => {
      if (!working()) unhealthy.push("nothing samples");
      return told.includes("received");
    });
    expect(told).toEqual(["started", "started", "received"]);
    expect(stranded()).toBe(0);
    expect(unhealthy).toEqual([]);
  });
});
