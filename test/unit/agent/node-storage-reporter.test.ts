import { describe, expect, it } from "@jest/globals";
import { isWorthTelling, startNodeStorageReporter } from "../../../src/agent/node-storage-reporter.ts";
import type { ApplyConfiguration, KubeClient } from "../../../src/kube/client.ts";
import { createLogger } from "../../../src/process/log.ts";
import { GIB, MIB } from "../../../src/units/quantity.ts";

/** What was applied, in order. */
async function reportOf(freeBytes: () => Promise<number>): Promise<ApplyConfiguration[]> {
  const applied: ApplyConfiguration[] = [];
  const client = {
    apply: async (_point: string, _resource: unknown, configuration: ApplyConfiguration) => {
      applied.push(configuration);
      return configuration;
    },
  } as unknown as KubeClient;
  const log = createLogger("test", "silent");
  const reporter = startNodeStorageReporter({ nodeName: "node-1", client, storage: { freeBytes }, log });
  await reporter.stop();
  return applied;
}

describe("a node's report of free bytes", () => {
  it("is made at the start, in whole mebibytes and never more than there is", async () => {
    const [object, report] = await reportOf(async () => 5 * MIB + 1);
    expect(object).toMatchObject({ kind: "NodeStorage", metadata: { name: "node-1" }, spec: {} });
    expect(report?.["status"]).toEqual({ deviceClasses: [{ name: "loop", backend: "loop", free: "5Mi" }] });
  });

  it("says 0 where members have been promised more than there is", async () => {
    const [, report] = await reportOf(async () => -GIB);
    expect(report?.["status"]).toMatchObject({ deviceClasses: [{ free: "0" }] });
  });

  it("is not made at all where nothing could be measured", async () => {
    expect(await reportOf(() => Promise.reject(new Error("no such directory")))).toEqual([]);
  });

  it.each([
    [100 * GIB, 99.5 * GIB, false],
    [100 * GIB, 98 * GIB, true],
    [100 * GIB, 102 * GIB, true],
    [0, MIB, true],
    [0, 0, false],
  ])("after %d bytes, %d are worth telling: %s", (told, free, worth) => {
    expect(isWorthTelling(told, free)).toBe(worth);
  });
});
