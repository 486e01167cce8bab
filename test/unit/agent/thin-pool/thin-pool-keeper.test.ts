import { setImmediate } from "node:timers/promises";
import { afterEach, describe, expect, it } from "@jest/globals";
import { createThinPoolKeeper, type ThinPoolKeeper } from "../../../../src/agent/thin-pool/thin-pool-keeper.ts";
import { DeviceClass, type ExtendThinPoolRequest } from "../../../../src/contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import type { ClusterVolumePolicy } from "../../../../src/contracts/kinds/volume-policy.ts";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { createLogger } from "../../../../src/platform/process/log.ts";
import { createMetricsRegistry } from "../../../../src/platform/process/metrics/metrics-server.ts";
import { eventually, waitFor } from "../../../harness/wait-for.ts";

const POLICY: ClusterVolumePolicy = {
  apiVersion: "tidemark.dev/v1alpha1",
  kind: "ClusterVolumePolicy",
  metadata: { name: "pools" },
  spec: { thinPools: [{ deviceClass: "thin", extendAt: "80%", by: "50%" }] },
};

function aClass(dataPercent: number, change: Partial<DeviceClass> = {}): DeviceClass {
  const thinPool = {
    name: "pool",
    sizeBytes: 10 * GIB,
    metadataSizeBytes: 32 * MIB,
    dataPercent,
    metadataPercent: 10,
    overprovisionRatio: 5,
    groupFreeBytes: 100 * GIB,
  };
  return DeviceClass.fromPartial({ name: "thin", sizeGrainBytes: 4 * MIB, thinPool, ...change });
}

describe("the keeper of thin pools", () => {
  let keeper: ThinPoolKeeper | undefined;
  afterEach(() => keeper?.stop());

  function keep({ policies = [POLICY], fail = false }: { policies?: ClusterVolumePolicy[]; fail?: boolean } = {}) {
    const extended: ExtendThinPoolRequest[] = [];
    const said: string[] = [];
    const registry = createMetricsRegistry();
    const heard = [...policies];
    let nowMs = 0;
    keeper = createThinPoolKeeper({
      nodeName: "node-a",
      policies: { list: () => heard },
      extendPool: async (wanted) => {
        extended.push(wanted);
        if (fail) throw new Error("the group is locked");
      },
      events: {
        record: (object, type, reason) => said.push(`${object.kind}/${object.metadata.name} ${type} ${reason}`),
      },
      registry,
      clock: { monotonicMs: () => nowMs },
      log: createLogger("test", "silent"),
    });
    const isFull = async (): Promise<string | undefined> =>
      /^tidemark_thin_pool_full{device_class="thin"} (\d)$/m.exec(await registry.metrics())?.[1];
    const advance = (ms: number): boolean => {
      nowMs += ms;
      return true;
    };
    return { keeper, heard, extended, said, isFull, advance };
  }

  it("extends a pool that is over the threshold, and says so on the node's NodeStorage", async () => {
    const { keeper, extended, said, isFull } = keep();
    keeper.reported([aClass(80)]);
    await eventually("it is said", () => said.length > 0);
    expect(said).toEqual(["NodeStorage/node-a Normal ThinPoolExtended"]);
    expect(extended).toMatchObject([{ deviceClass: "thin", sizeBytes: 15 * GIB, metadataSizeBytes: 32 * MIB }]);
    expect(await isFull()).toBe("0");
  });

  it("leaves alone what no policy names, what is thick, and what cannot be used now", async () => {
    const { keeper, extended, said } = keep();
    keeper.reported([
      aClass(99, { name: "other" }),
      aClass(99, { thinPool: undefined }),
      aClass(99, { problem: "gone" }),
    ]);
    await keeper.stop();
    expect([extended, said]).toEqual([[], []]);
  });

  it("extends when a policy appears, without a new report", async () => {
    const { keeper, heard, extended } = keep({ policies: [] });
    keeper.reported([aClass(90)]);
    heard.push(POLICY);
    keeper.policiesChanged();
    await eventually("it is extended", () => extended.length === 1);
  });

  it("says once that a pool is full which cannot grow, and again when it is so again", async () => {
    const { keeper, said, isFull } = keep();
    const full = aClass(95);
    if (full.thinPool !== undefined) full.thinPool.groupFreeBytes = 0;
    keeper.reported([full]);
    keeper.reported([full]);
    await eventually("it is said", () => said.length === 1);
    expect(await isFull()).toBe("1");
    keeper.reported([aClass(10)]);
    await waitFor("it is full no more", async () => ((await isFull()) === "0" ? true : undefined));
    keeper.reported([full]);
    const once = "NodeStorage/node-a Warning ThinPoolFull";
    await eventually("it is said again", () => said.length === 2);
    expect(said).toEqual([once, once]);
  });

  it("goes on calling a pool full of which nobody can tell any more how full it is", async () => {
    const { keeper, isFull } = keep();
    const full = aClass(95);
    if (full.thinPool !== undefined) full.thinPool.groupFreeBytes = 0;
    keeper.reported([full]);
    await waitFor("a full pool", async () => ((await isFull()) === "1" ? true : undefined));
    keeper.reported([aClass(Number.NaN, { problem: "the pool has failed" })]);
    await setImmediate();
    expect(await isFull()).toBe("1");
  });

  it("asks once for each report, and leaves the next extension a while", async () => {
    const { keeper, extended, said, advance } = keep();
    const first = aClass(80);
    keeper.reported([first]);
    await eventually("it is said", () => said.length === 1);
    keeper.reported([aClass(85)]); // made before the extension, or the pool fills as fast
    await setImmediate();
    expect(extended).toHaveLength(1); // and never would be, as long as the clock stands still
    advance(2000);
    keeper.reported([first]);
    await setImmediate();
    expect(extended).toHaveLength(1);
    keeper.reported([aClass(85)]);
    await eventually("it is extended again", () => extended.length === 2);
  });

  it("says that it leaves a pool alone of which nobody can tell how full it is", async () => {
    const { keeper, extended, said } = keep();
    keeper.reported([aClass(Number.NaN)]);
    await eventually("it is said", () => said.length > 0);
    expect([extended, said]).toEqual([[], ["NodeStorage/node-a Warning ThinPoolUnknown"]]);
  });

  it("says what lvmd answers, counts the pool as full, and tries again with the next report", async () => {
    const { keeper, extended, said, isFull, advance } = keep({ fail: true });
    keeper.reported([aClass(85)]);
    await eventually("it is extended", () => extended.length === 1);
    keeper.reported([aClass(86)]);
    await eventually("it is tried again", () => advance(1000) && extended.length === 2);
    expect(said).toEqual(["NodeStorage/node-a Warning ThinPoolExtendFailed"]);
    expect(await isFull()).toBe("1");
  });
});
