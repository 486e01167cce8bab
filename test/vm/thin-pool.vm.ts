// Thin pools that fill up under the real stack on real LVM: they grow by policy, whoever dies meanwhile; what cannot grow says so; one past
// its spare takes no new volume; and what filesystems no longer hold goes back. Runs inside the virtual machine that
// test/real/thin-pool.test.ts starts.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { FS_TYPES } from "../../src/contracts/kinds/filesystem-layout.ts";
import { PERSISTENT_VOLUME_CLAIMS } from "../../src/contracts/kubernetes/resources.ts";
import { GIB, MIB, parseQuantity } from "../../src/contracts/quantities/quantity.ts";
import { noteDeaths } from "../harness/death-notes.ts";
import { applyLvmClass } from "../harness/lvm-of-stack.ts";
import { NODE_NAME, type Stack, startStack } from "../harness/stack.ts";
import { applyPolicy, createVolume, filesystemOf, NAMESPACE, type TestVolume } from "../harness/volume.ts";
import { waitFor } from "../harness/wait-for.ts";
import { callsOf, connect, refusalOf, sh } from "./lvmd/lvmd-under-test.ts";
import {
  applyClusterPolicy,
  deleteClusterPolicy,
  eventsOn,
  fillUntilUsed,
  metricOf,
  poolNow,
  removeBallast,
  toldOf,
  touchChunks,
  waitForEvent,
  waitForPool,
  waitForTrimsWanted,
  writeBallast,
} from "./thin-pools-of-stack.ts";

const LIMIT_MS = 600_000;
const CHUNK_BYTES = 64 * 1024;
const CHUNKS_AT_ONCE = 1000;
/** How much the first pool may have in use before it grows. */
const EXTEND_AT = 0.6;
const BEFORE_EXTENSION = "thin-pool/extend/before";
const AFTER_EXTENSION = "thin-pool/extend/after";
const BALLAST_BYTES = 96 * MIB;

/** Class, group and pool have one disk each; `more` is a disk that no group has yet. */
const DISKS = {
  filling: "/dev/ubda",
  more: "/dev/ubdb",
  chunky: "/dev/ubdc",
  spared: "/dev/ubdd",
  trimmed: "/dev/ubde",
};
const MAKE_POOLS = `
vgcreate -qq filling ${DISKS.filling}
lvcreate -qq -y -T filling/pool -L 256m -c 64k --poolmetadatasize 4m
vgcreate -qq -s 1m chunky ${DISKS.chunky}
lvcreate -qq -y -T chunky/pool -L 11g -c 64k --poolmetadatasize 2m -Zn
vgcreate -qq spared ${DISKS.spared}
lvcreate -qq -y -T spared/pool -L 1104m -c 64k
vgcreate -qq trimmed ${DISKS.trimmed}
lvcreate -qq -y -T trimmed/pool -L 2g -c 64k
`;

function deviceClass(name: string, spareGb: number): object {
  const pool = { name: "pool", "overprovision-ratio": 10 };
  return { name, "volume-group": name, "spare-gb": spareGb, type: "thin", "thin-pool": pool };
}

describe("thin pools under the stack", () => {
  let stack: Stack;
  const effectLog = (): string => join(stack.directory, "agent.effects");
  const extensions = (): number =>
    readFileSync(effectLog(), "utf8")
      .split("\n")
      .filter((line) => line === BEFORE_EXTENSION).length;

  beforeAll(async () => {
    sh(MAKE_POOLS);
    const deviceClasses = [
      { ...deviceClass("filling", 0), default: true },
      deviceClass("chunky", 0),
      deviceClass("spared", 1),
      deviceClass("trimmed", 0),
    ];
    stack = await startStack({ lvm: { group: "filling", deviceClasses } });
    for (const name of ["filling", "spared", "trimmed"])
      for (const fsType of FS_TYPES)
        await applyLvmClass(
          stack.client,
          { deviceClass: name, "csi.storage.k8s.io/fstype": fsType },
          `${name}-${fsType}`,
        );
  }, LIMIT_MS);
  afterAll(() => stack?.close(), LIMIT_MS);

  const volumeIn = (
    storageClassName: string,
    name: string,
    request = "1Gi",
    labels: Record<string, string> = {},
  ): Promise<TestVolume> => createVolume(stack, name, { request, storageClassName, labels });
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

  it(
    "that run out of metadata get more of them, and no data",
    async () => {
      sh("lvcreate -qq -y -T chunky/pool -V 4g -n many-chunks");
      const before = poolNow("chunky");
      expect(before).toMatchObject({ sizeBytes: 11 * GIB, metadataBytes: 2 * MIB });
      // Some thousands of chunks away, which are a few percent of its data.
      const extendAtPercent = Math.ceil(before.metadataPercent) + 10;
      const thinPools = [{ deviceClass: "chunky", extendAt: `${extendAtPercent}%`, by: "100%" }];
      await applyClusterPolicy(stack, "chunky", { thinPools });
      const isOver = (): boolean => {
        const { metadataBytes, metadataPercent } = poolNow("chunky");
        return metadataPercent >= extendAtPercent || metadataBytes > before.metadataBytes;
      };
      for (let chunk = 0; !isOver(); chunk += CHUNKS_AT_ONCE)
        touchChunks("/dev/chunky/many-chunks", chunk, CHUNKS_AT_ONCE, CHUNK_BYTES);
      await waitForPool(stack, "chunky", "to have 4 MiB of metadata", (pool) => pool.metadataBytes === 4 * MIB);
      await waitForEvent(stack, "NodeStorage", NODE_NAME, /^ThinPoolExtended: thin pool chunky: .* to \S+ and 4Mi /);
      expect(poolNow("chunky").sizeBytes).toBe(before.sizeBytes);
    },
    LIMIT_MS,
  );

  it(
    "past their spare refuse new volumes while writes go on, take them again once grown, and leave their group its spare",
    async () => {
      const { mountPath } = await volumeIn("spared-xfs", "early", "2Gi");
      const ballast = writeBallast(mountPath, 128 * MIB);
      await waitFor("the node to have nothing free there", async () =>
        (await toldOf(stack, "spared"))?.free === "0" ? true : undefined,
      );
      const clients = connect(stack.lvm?.lvmd.socket ?? "");
      expect(await refusalOf(callsOf(clients).create("late", 64 * MIB, "spared"))).toMatchObject({
        code: "RESOURCE_EXHAUSTED",
      });
      clients.close();
      const late = volumeIn("spared-xfs", "late");
      late.catch(() => undefined);
      await waitForEvent(stack, "PersistentVolumeClaim", "late", /RESOURCE_EXHAUSTED.* node node-a has 0 B left/);
      writeFileSync(join(mountPath, "later"), Buffer.alloc(16 * MIB, "tide"), { flush: true });
      expect(existsSync(ballast)).toBe(true);
      await applyClusterPolicy(stack, "spared", {
        thinPools: [{ deviceClass: "spared", extendAt: "8%", by: "300%" }],
      });
      expect(existsSync((await late).mountPath)).toBe(true);
      const claim = await stack.client.get(PERSISTENT_VOLUME_CLAIMS, { namespace: NAMESPACE, name: "late" });
      expect(claim?.status?.phase).toBe("Bound");
      expect(Number(sh("vgs --noheadings --units b --nosuffix -o vg_free spared"))).toBeGreaterThanOrEqual(GIB);
    },
    LIMIT_MS,
  );

  describe("that fill with data", () => {
    const diedAt: string[] = [];
    let volume: TestVolume;
    afterAll(() => noteDeaths("thin-pool", { killsAt: [BEFORE_EXTENSION, AFTER_EXTENSION], diedAt }));
    const growing = (max?: string) => ({
      thinPools: [{ deviceClass: "filling", extendAt: "60%", by: "50%", ...(max === undefined ? {} : { max }) }],
    });
    const fillOver = (sizeBytes: number): void => fillUntilUsed(volume.mountPath, "filling", sizeBytes * EXTEND_AT);
    const untilSize = (sizeBytes: number): Promise<void> =>
      waitForPool(stack, "filling", `to have ${sizeBytes} bytes`, (pool) => pool.sizeBytes === sizeBytes);

    beforeAll(async () => {
      volume = await volumeIn("filling-ext4", "writer", "2Gi");
      await restartAgent({});
    }, LIMIT_MS);

    it(
      "are left alone once the policy is deleted, and one that is suspended says so",
      async () => {
        await applyClusterPolicy(stack, "pools", growing());
        await deleteClusterPolicy(stack, "pools");
        // Told in the order in which it happened: who says this has heard of the deletion.
        const thinPools = [{ deviceClass: "trimmed", extendAt: "1%" }];
        await applyClusterPolicy(stack, "suspended", { suspend: true, thinPools });
        await waitForEvent(stack, "NodeStorage", NODE_NAME, /^PolicySuspended: thin pool trimmed: /);
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
        await restartAgent({ TIDEMARK_FAULT: BEFORE_EXTENSION });
        await applyClusterPolicy(stack, "pools", growing("512Mi"));
        await stack.processes.agent.ended();
        expect(poolNow("filling").sizeBytes).toBe(256 * MIB);
        writeBallast(volume.mountPath, 16 * MIB);
        await reviveAgent();
        diedAt.push(BEFORE_EXTENSION);
        await untilSize(384 * MIB);
        await waitForEvent(stack, "NodeStorage", NODE_NAME, /^ThinPoolExtended: .* of 256Mi data .* to 384Mi and /);
        expect(extensions()).toBe(2); // of which the first was never asked for
      },
      LIMIT_MS,
    );

    it(
      "grow once although the agent dies right after it, and not over max",
      async () => {
        await restartAgent({ TIDEMARK_FAULT: AFTER_EXTENSION });
        fillOver(384 * MIB);
        await stack.processes.agent.ended();
        expect(poolNow("filling").sizeBytes).toBe(512 * MIB);
        await reviveAgent();
        diedAt.push(AFTER_EXTENSION);
        await untilFull("filling", 0);
        fillOver(512 * MIB);
        await waitForEvent(stack, "NodeStorage", NODE_NAME, /^ThinPoolFull: raise thinPools.max of .* \(512Mi\)/);
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
        await waitForEvent(
          stack,
          "NodeStorage",
          NODE_NAME,
          /^ThinPoolFull: add a disk to the volume group, .* \(0 B are left/,
        );
        await untilFull("filling", 1);
        sh(`vgextend -qq filling ${DISKS.more}`);
        await waitForPool(stack, "filling", "to grow again", (pool) => pool.sizeBytes > wholeBytes);
        await untilFull("filling", 0);
      },
      LIMIT_MS,
    );
  });

  it(
    "get back what filesystems hold no more, when the policy's time has come",
    async () => {
      const volumes = new Map<string, TestVolume>();
      for (const fsType of FS_TYPES)
        volumes.set(fsType, await volumeIn(`trimmed-${fsType}`, `trimmed-${fsType}`, "1Gi", { trim: "yes" }));
      await applyPolicy(stack, "trims", {
        selector: { matchLabels: { trim: "yes" } },
        limits: { max: "2Gi" },
        trim: { every: "10m" },
        rules: [{ name: "as-it-is", action: "Extend", when: "false", to: "2Gi" }],
      });
      for (const { mountPath } of volumes.values()) removeBallast(writeBallast(mountPath, BALLAST_BYTES));
      const heldBytes = volumes.size * BALLAST_BYTES;
      await waitForPool(stack, "trimmed", "to hold what was deleted", (pool) => pool.usedBytes > heldBytes);
      for (const { handle } of volumes.values()) await waitForTrimsWanted(stack, handle);
      sh("date -s '+11 minutes'");
      for (const [fsType, volume] of volumes) {
        const lastTrim = await waitFor(
          `the ${fsType} volume to be trimmed`,
          async () => (await filesystemOf(stack, volume)).status?.lastTrim ?? undefined,
          { limitMs: 240_000, intervalMs: 500, otherwise: () => stack.tellLogs() },
        );
        expect(lastTrim.message).toBeUndefined();
        expect(parseQuantity(lastTrim.trimmed)).toBeGreaterThan(0.9 * BALLAST_BYTES);
      }
      // Not as much as where one volume had kept its own.
      const leftBytes = heldBytes - BALLAST_BYTES;
      await waitForPool(stack, "trimmed", `to have ${leftBytes} bytes in use`, (pool) => pool.usedBytes < leftBytes);
      const leftPercent = Math.ceil((100 * leftBytes) / poolNow("trimmed").sizeBytes);
      await waitFor("the node to tell so", async () =>
        ((await toldOf(stack, "trimmed"))?.thinPool?.dataPercent ?? 100) <= leftPercent ? true : undefined,
      );
      const given = await metricOf(stack, "tidemark_filesystem_trimmed_bytes_total");
      expect(given).toBeGreaterThan(0.9 * heldBytes);
      const grown = (await eventsOn(stack, "NodeStorage", NODE_NAME)).filter((one) =>
        /^ThinPoolExtended: thin pool trimmed: /.test(one),
      );
      expect(grown).toEqual([]);
    },
    LIMIT_MS,
  );
});
