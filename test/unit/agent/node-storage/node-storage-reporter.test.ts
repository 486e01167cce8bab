import { afterEach, describe, expect, it, jest } from "@jest/globals";
import {
  createNodeStorageReport,
  isWorthTelling,
  startNodeStorageReporter,
} from "../../../../src/agent/node-storage/node-storage-reporter.ts";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import type { ApplyConfiguration } from "../../../../src/platform/kube/client/client.ts";
import { KubeError } from "../../../../src/platform/kube/kube-error.ts";
import { createLogger } from "../../../../src/platform/process/log.ts";
import { makeDeviceClass } from "../../../builders/device-class.ts";
import { servedClient } from "../../../fakes/served-client.ts";

const log = createLogger("test", "silent");
/** A node with neither lvmd nor other drivers. */
const NOTHING_ELSE = { classes: () => undefined, csiNode: () => undefined, ioUtilizationRatio: () => undefined };

/** An API server with nothing but NodeStorages: each as it was last applied. As the real one it takes no status of what is not there. */
function nodeStorageServer() {
  const objects = new Map<string, ApplyConfiguration>();
  const writes: string[] = [];
  const client = servedClient({
    apply: async (_point, _resource, given, options) => {
      const present = objects.get(given.metadata.name);
      if (options.subresource === "status" && present === undefined)
        throw new KubeError("NotFound", 404, given.metadata.name);
      objects.set(given.metadata.name, { ...present, ...given });
      writes.push(options.subresource ?? "object");
      return given;
    },
  });
  return { objects, writes, client };
}

/** The NodeStorage after the first look of a reporter. */
async function reportOf(freeBytes: () => Promise<number>): Promise<ApplyConfiguration | undefined> {
  const { objects, client } = nodeStorageServer();
  const clock = { monotonicMs: () => 0 };
  const reporter = startNodeStorageReporter({
    nodeName: "node-1",
    client,
    storage: { freeBytes },
    ...NOTHING_ELSE,
    clock,
    log,
  });
  await reporter.stop();
  return objects.get("node-1");
}

describe("a node's report of free bytes", () => {
  afterEach(() => void jest.useRealTimers());

  it("is made at the start, in whole mebibytes and never more than there is", async () => {
    expect(await reportOf(async () => 5 * MIB + 1)).toMatchObject({
      kind: "NodeStorage",
      metadata: { name: "node-1" },
      spec: {},
      status: { deviceClasses: [{ name: "loop", backend: "loop", free: "5Mi" }] },
    });
  });

  it("says 0 where members have been promised more than there is", async () => {
    expect(await reportOf(async () => -GIB)).toMatchObject({ status: { deviceClasses: [{ free: "0" }] } });
  });

  it("is not made at all where nothing could be measured", async () => {
    expect(await reportOf(() => Promise.reject(new Error("no such directory")))).toBeUndefined();
  });

  it.each([
    ["as soon as the figure changes", 50 * GIB, 10_000],
    ["after a while, although the figure is the same", 100 * GIB, 300_000],
  ])("comes back after somebody has deleted it: %s", async (_when, nowBytes, laterMs) => {
    const { objects, client } = nodeStorageServer();
    let [freeBytes, atMs] = [100 * GIB, 0];
    const storage = { freeBytes: async () => freeBytes };
    const look = createNodeStorageReport({
      nodeName: "node-1",
      client,
      storage,
      ...NOTHING_ELSE,
      clock: { monotonicMs: () => atMs },
      log,
    });
    await look();
    objects.clear();
    [freeBytes, atMs] = [nowBytes, laterMs];
    await look();
    expect(objects.get("node-1")).toMatchObject({
      spec: {},
      status: { deviceClasses: [{ free: `${nowBytes / GIB}Gi` }] },
    });
  });

  it.each([
    [100 * GIB, 99.5 * GIB, 10_000, false],
    [100 * GIB, 98 * GIB, 10_000, true],
    [100 * GIB, 102 * GIB, 10_000, true],
    [0, MIB, 10_000, true],
    [0, 0, 10_000, false],
    [0, 0, 300_000, true],
  ])("after %d bytes, %d are worth telling %d ms later: %s", (told, now, laterMs, worth) => {
    const others = "as before";
    expect(isWorthTelling({ freeBytes: told, others, atMs: 5 }, { freeBytes: now, others, atMs: 5 + laterMs })).toBe(
      worth,
    );
  });

  it("tells what lvmd tells within a second, and what changes at the same time at once", async () => {
    jest.useFakeTimers({ doNotFake: ["performance", "nextTick", "setImmediate", "queueMicrotask"] });
    const { objects, writes, client } = nodeStorageServer();
    let freeBytes = 10 * GIB;
    const reporter = startNodeStorageReporter({
      nodeName: "node-1",
      client,
      storage: { freeBytes: async () => GIB },
      ...NOTHING_ELSE,
      classes: () => [makeDeviceClass({ freeBytes })],
      clock: { monotonicMs: () => 0 },
      log,
    });
    const settled = (): Promise<unknown> => jest.advanceTimersByTimeAsync(0);
    await settled();
    expect(writes).toHaveLength(2);
    for (freeBytes = 9 * GIB; freeBytes > 5 * GIB; freeBytes -= MIB) reporter.changed();
    await jest.advanceTimersByTimeAsync(1000);
    expect(writes).toHaveLength(3);
    await reporter.stop();
    expect(writes).toEqual(["object", "status", "status"]);
    expect(objects.get("node-1")).toMatchObject({ status: { deviceClasses: [{ name: "loop" }, { free: "5Gi" }] } });
  });
});
