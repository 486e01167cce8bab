// Thin pools that fill up under the real stack on real LVM: they grow by policy, whoever dies meanwhile; and what cannot
// grow says so. Runs inside the virtual machine that test/real/thin-pool.test.ts starts.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { MIB } from "../../src/units/quantity.ts";
import { LVM_CLASS_NAME } from "../harness/lvm-of-stack.ts";
import { NODE_NAME, type Stack, startStack } from "../harness/stack.ts";
import { createVolume, type TestVolume } from "../harness/volume.ts";
import { waitFor } from "../harness/wait-for.ts";
import { sh } from "./lvmd/lvmd-under-test.ts";
import {
  applyClusterPolicy,
  deleteClusterPolicy,
  fillUntilUsed,
  metricOf,
  poolNow,
  toldOf,
  waitForEvent,
  waitForPool,
  writeBallast,
} from "./thin-pools-of-stack.ts";

const LIMIT_MS = 600_000;
/** How much the first pool may have in use before it grows. */
const EXTEND_AT = 0.6;

/** Class, group and pool have one disk each; `more` is a disk that no group has yet. */
const DISKS = { filling: "/dev/ubda", more: "/dev/ubdb", other: "/dev/ubdc" };
const MAKE_POOLS = `
vgcreate -qq filling ${DISKS.filling}
lvcreate -qq -y -T filling/pool -L 256m -c 64k --poolmetadatasize 4m
vgcreate -qq other ${DISKS.other}
lvcreate -qq -y -T other/pool -L 512m -c 64k
`;

function deviceClass(name: string): object {
  const pool = { name: "pool", "overprovision-ratio": 10 };
  return { name, "volume-group": name, "spare-gb": 0, type: "thin", "thin-pool": pool };
}

describe("thin pools under the stack", () => {
  let stack: Stack;
  const effectLog = (): string => join(stack.directory, "agent.effects");
  const extensions = (): number =>
    readFileSync(effectLog(), "utf8")
      .split("\n")
      .filter((line) => line === "thin-pool/extend/before").length;

  beforeAll(async () => {
    sh(MAKE_POOLS);
    const deviceClasses = [{ ...deviceClass("filling"), default: true }, deviceClass("other")];
    stack = await startStack({ fsType: "ext4", lvm: { group: "filling", deviceClasses } });
  }, LIMIT_MS);
  afterAll(() => stack?.close(), LIMIT_MS);

  const restartAgent = async (environment: Record<string, string>): Promise<void> => {
    await stack.processes.agent.stop();
    writeFileSync(effectLog(), "");
    await stack.start("agent", { TIDEMARK_EFFECT_LOG: effectLog(), ...environment });
  };
  /** As somebody who kubelet starts again. */
  const reviveAgent = async (): Promise<void> => {
    expect((await stack.processes.agent.ended()).signal).toBe("SIGKILL");
    await stack.start("agent", { TIDEMARK_EFFECT_LOG: effectLog() });
  };
  const untilFull = (deviceClass: string, full: 0 | 1): Promise<true> =>
    waitFor(
      `tidemark_thin_pool_full of ${deviceClass} to be ${full}`,
      async () =>
        (await metricOf(stack, `tidemark_thin_pool_full{device_class="${deviceClass}"}`)) === full ? true : undefined,
      { intervalMs: 300, otherwise: () => stack.tellLogs() },
    );

  describe("that fill with data", () => {
    let volume: TestVolume;
    const growing = (max?: string) => ({
      thinPools: [{ deviceClass: "filling", extendAt: "60%", by: "50%", ...(max === undefined ? {} : { max }) }],
    });
    const fillOver = (sizeBytes: number): void => fillUntilUsed(volume.mountPath, "filling", sizeBytes * EXTEND_AT);
    const untilSize = (sizeBytes: number): Promise<void> =>
      waitForPool(stack, "filling", `to have ${sizeBytes} bytes`, (pool) => pool.sizeBytes === sizeBytes);

    beforeAll(async () => {
      volume = await createVolume(stack, "writer", { request: "2Gi", storageClassName: LVM_CLASS_NAME });
      await restartAgent({});
    }, LIMIT_MS);

    it(
      "are left alone once the policy is deleted, and one that is suspended says so",
      async () => {
        await applyClusterPolicy(stack, "pools", growing());
        await deleteClusterPolicy(stack, "pools");
        // Told in the order in which it happened: who says this has heard of the deletion.
        const thinPools = [{ deviceClass: "other", extendAt: "1%" }];
        await applyClusterPolicy(stack, "suspended", { suspend: true, thinPools });
        await waitForEvent(stack, "NodeStorage", NODE_NAME, /^PolicySuspended: .* other /);
        fillOver(256 * MIB);
        await waitFor("the node to tell how full it is", async () =>
          ((await toldOf(stack, "filling"))?.thinPool?.dataPercent ?? 0) >= 100 * EXTEND_AT ? true : undefined,
        );
        expect(extensions()).toBe(0);
        expect(poolNow("filling").sizeBytes).toBe(256 * MIB);
        await deleteClusterPolicy(stack, "suspended");
      },
      LIMIT_MS,
    );

    it(
      "grow although the agent dies before it has asked for it, and writes go on meanwhile",
      async () => {
        await restartAgent({ TIDEMARK_FAULT: "thin-pool/extend/before" });
        await applyClusterPolicy(stack, "pools", growing("512Mi"));
        await stack.processes.agent.ended();
        expect(poolNow("filling").sizeBytes).toBe(256 * MIB);
        writeBallast(volume.mountPath, 16 * MIB);
        await reviveAgent();
        await untilSize(384 * MIB);
        await waitForEvent(stack, "NodeStorage", NODE_NAME, /^ThinPoolExtended: .* 256Mi data .* to 384Mi data/);
        expect(extensions()).toBe(2); // of which the first was never asked for
      },
      LIMIT_MS,
    );

    it(
      "grow once although the agent dies right after it, and not over max",
      async () => {
        await restartAgent({ TIDEMARK_FAULT: "thin-pool/extend/after" });
        fillOver(384 * MIB);
        await stack.processes.agent.ended();
        expect(poolNow("filling").sizeBytes).toBe(512 * MIB);
        await reviveAgent();
        await untilFull("filling", 0);
        fillOver(512 * MIB);
        await waitForEvent(stack, "NodeStorage", NODE_NAME, /^ThinPoolFull: .* its max is 512Mi/);
        await untilFull("filling", 1);
        expect(poolNow("filling").sizeBytes).toBe(512 * MIB);
        expect(extensions()).toBe(1);
      },
      LIMIT_MS,
    );

    it(
      "take what their group has left, say that it has no more, and go on when it gets a disk",
      async () => {
        const freeBytes = (): number => Number(sh("vgs --noheadings --units b --nosuffix -o vg_free filling"));
        const wholeBytes = 512 * MIB + freeBytes();
        await applyClusterPolicy(stack, "pools", growing());
        await untilSize(wholeBytes);
        await untilFull("filling", 0);
        fillOver(wholeBytes);
        await waitForEvent(stack, "NodeStorage", NODE_NAME, /^ThinPoolFull: .* its volume group has 0 B left/);
        await untilFull("filling", 1);
        sh(`vgextend -qq filling ${DISKS.more}`);
        await waitForPool(stack, "filling", "to grow again", (pool) => pool.sizeBytes > wholeBytes);
        await untilFull("filling", 0);
      },
      LIMIT_MS,
    );
  });
});
