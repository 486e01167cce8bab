// The member driver of the test cluster, held against csi-sanity and against what tests rely on: that it does what it says, and
// that each switch does what its name says.
import { closeSync, fsyncSync, openSync, readFileSync, statfsSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { loopDevicesUnder, mountsUnder } from "../../demo/show/run/mount-table.ts";
import type { VolumeCapability } from "../../src/contracts/gen/csi/v1/csi.ts";
import { MIB } from "../../src/contracts/quantities/quantity.ts";
import { mountCapability } from "../builders/create-volume-request.ts";
import { runProgram } from "../cluster/run-program.ts";
import { runCsiSanity, type SanityReport } from "../harness/csi-sanity.ts";
import { describeReal } from "../harness/real-parts.ts";
import { waitFor } from "../harness/wait-for.ts";
import { deviceBytes, loopOf } from "../member-driver/loop.ts";
import { readRpcLog } from "../member-driver/rpc-log.ts";
import { writeSwitches } from "../member-driver/switches.ts";
import { BLOCK, call, FILESYSTEM, startTwoNodeDriver, type TwoNodeDriver } from "../member-driver/two-node-driver.ts";
import { vanish } from "../member-driver/vanish.ts";
import { createVolumeFiles } from "../member-driver/volume-files.ts";
import { createVolume, VOLUME_BYTES, volumeLife } from "../member-driver/volume-life.ts";

/** csi-test 5.6.0. */
const SPECS = { passed: 59, skipped: 43, pending: 1 };
/** What there is none of: snapshots, clones, groups, modification, and CSI 1.13's health. */
const SKIPPED = /Snapshot|Cloning|GroupController|[Mm]odify ?[Vv]olume|Health not supported/;
const SANITY_LIMIT_MS = 900_000;

let driver: TwoNodeDriver;

beforeEach(async () => {
  driver = await startTwoNodeDriver();
});
afterEach(() => driver.close());

const newVolume = async (capability: VolumeCapability = FILESYSTEM, name = "member") =>
  volumeLife(driver, await createVolume(driver, name, { volumeCapabilities: [capability] }), capability);
/** Growing an ext4 in use takes CAP_SYS_RESOURCE, which a container's root often lacks. */
const GROWING = mountCapability("btrfs");
const refusedWith = (code: status, message = "") => ({ code, details: expect.stringContaining(message) });
const listed = async (): Promise<string[]> => {
  const { controller } = driver;
  const { entries } = await call(controller.listVolumes.bind(controller), { maxEntries: 0, startingToken: "" });
  return entries.map(({ volume }) => volume?.volumeId ?? "");
};

describeReal("csi-sanity on the member driver", ["root", "loop", "csi-sanity"], () => {
  it.each(["mount", "block"])(
    "passes whole with %s volumes, and skips only what does not exist",
    async (access) => {
      const withStatus = (report: SanityReport, what: string) => report.specs.filter((spec) => spec.status === what);
      const report = await runCsiSanity({
        directory: driver.directory,
        controllerSocket: join(driver.directory, "controller.sock"),
        nodeSocket: join(driver.directory, "node-a.sock"),
        kubeletDirectory: join(driver.directory, "kubelet"),
        parameters: {},
        secrets: {},
        volumeBytes: VOLUME_BYTES,
        expandedBytes: 2 * VOLUME_BYTES,
        flags: { "csi.testvolumeaccesstype": access, "csi.testnodevolumeattachlimit": "true" },
      });
      console.info(report.summary);
      expect(withStatus(report, "failed")).toEqual([]);
      expect(withStatus(report, "skipped").filter(({ message }) => !SKIPPED.test(message))).toEqual([]);
      const counts = { passed: 0, skipped: 0, pending: 0 };
      for (const spec of report.specs) counts[spec.status as keyof typeof counts] += 1;
      expect(counts).toEqual(SPECS);
      expect([...mountsUnder(driver.directory), ...loopDevicesUnder(driver.directory), ...(await listed())]).toEqual(
        [],
      );
    },
    SANITY_LIMIT_MS,
  );
});

describeReal("a volume of the member driver", ["root", "loop", "btrfs"], () => {
  it("keeps its data and grows while it is in use, on one node after the other", async () => {
    const volume = await newVolume(GROWING);
    await volume.use("node-a");
    writeFileSync(join(volume.path("node-a"), "file"), "tide");
    const before = statfsSync(volume.path("node-a")).blocks;
    expect(await volume.expand("node-a", 2 * VOLUME_BYTES)).toBe(2 * VOLUME_BYTES);
    expect(statfsSync(volume.path("node-a")).blocks).toBeGreaterThan(1.5 * before);
    await volume.leave("node-a");
    await volume.use("node-b");
    expect(readFileSync(join(volume.path("node-b"), "file"), "utf8")).toBe("tide");
    await volume.leave("node-b");
    await volume.delete();
    expect(await listed()).toEqual([]);
  });

  it("is a device that grows when it is a block volume", async () => {
    const volume = await newVolume(BLOCK);
    await volume.use("node-a");
    writeBlock(volume.path("node-a"), Buffer.from("mark"));
    await volume.expand("node-a", 2 * VOLUME_BYTES);
    expect(deviceBytes(loopOf(volume.volumeId) ?? "")).toBe(2 * VOLUME_BYTES);
    await volume.leave("node-a");
    await volume.use("node-b");
    expect(readFileSync(volume.path("node-b")).toString("utf8", 0, 4)).toBe("mark");
  });

  it.each([
    ["Never", VOLUME_BYTES, VOLUME_BYTES],
    ["Partly", 1.5 * VOLUME_BYTES, 1.5 * VOLUME_BYTES],
    ["Slowly", VOLUME_BYTES, 2 * VOLUME_BYTES],
  ])(
    "of a class with growth: %s is acknowledged as larger, whatever its device has",
    async (growth, atOnce, inTime) => {
      writeSwitches(driver.directory, { growthDelayMs: 1 });
      const request = { volumeCapabilities: [BLOCK], parameters: { growth } };
      const volume = volumeLife(driver, await createVolume(driver, growth, request), BLOCK);
      await volume.use("node-a");
      const { controller } = driver;
      const capacityRange = { requiredBytes: 2 * VOLUME_BYTES, limitBytes: 0 };
      const asked = { volumeId: volume.volumeId, capacityRange, secrets: {}, volumeCapability: BLOCK };
      const answer = await call(controller.controllerExpandVolume.bind(controller), asked);
      expect(answer.capacityBytes).toBe(2 * VOLUME_BYTES);
      const files = createVolumeFiles(driver.directory);
      if (growth !== "Slowly") expect(files.sizeBytes(volume.volumeId)).toBe(atOnce);
      await waitFor("what its device gets", () => files.sizeBytes(volume.volumeId) === inTime || undefined);
    },
  );

  it("refuses a manner of growing that there is not", async () => {
    const request = { parameters: { growth: "Sometimes" } };
    await expect(createVolume(driver, "odd", request)).rejects.toMatchObject(
      refusedWith(status.INVALID_ARGUMENT, "growth"),
    );
  });

  it("is never on two nodes: attached, staged, or with a context of another attachment", async () => {
    const volume = await newVolume();
    const context = await volume.attach("node-a");
    await expect(volume.attach("node-b")).rejects.toMatchObject(refusedWith(status.FAILED_PRECONDITION, "node-a"));
    await expect(volume.stage("node-b", context)).rejects.toMatchObject(refusedWith(status.FAILED_PRECONDITION));
    await expect(volume.stage("node-a", {})).rejects.toMatchObject(refusedWith(status.FAILED_PRECONDITION));
    await volume.stage("node-a", context);
    await expect(volume.detach("node-a")).rejects.toMatchObject(
      refusedWith(status.FAILED_PRECONDITION, "unstage it first"),
    );
    // Even where the record of the attachment is lost, the node that has staged it holds it.
    createVolumeFiles(driver.directory).detach(volume.volumeId);
    const other = await volume.attach("node-b");
    await expect(volume.stage("node-b", other)).rejects.toMatchObject(
      refusedWith(status.FAILED_PRECONDITION, "staged on node-a"),
    );
    await volume.unstage("node-a");
    await volume.stage("node-b", other);
  });

  it("is staged by one of two nodes that try at the same time", async () => {
    const volume = await newVolume();
    const files = createVolumeFiles(driver.directory);
    const claims = (["node-a", "node-b"] as const).map((node) =>
      files.claim(volume.volumeId, { node, stagingPath: "/staged", block: false, fsType: "ext4" }),
    );
    expect(claims.map(({ node }) => node)).toEqual(["node-a", "node-a"]);
  });

  it("is not deleted while it is attached, and goes from a node that died with it staged", async () => {
    const volume = await newVolume(BLOCK);
    await volume.use("node-a");
    await expect(volume.delete()).rejects.toMatchObject(refusedWith(status.FAILED_PRECONDITION, "node-a"));
    // As kubelet holds it for its pod.
    await runProgram("losetup", ["--find", volume.path("node-a")]);
    await volume.detach("node-a");
    expect(loopOf(volume.volumeId)).toBeUndefined();
    await volume.use("node-b");
  });

  it("stays where it is when the driver is restarted", async () => {
    const volume = await newVolume();
    await volume.use("node-a");
    await driver.restart();
    await volume.use("node-a"); // each step finds its work done
    await expect(volume.attach("node-b")).rejects.toMatchObject(refusedWith(status.FAILED_PRECONDITION, "node-a"));
    await volume.leave("node-a");
    expect(loopOf(volume.volumeId)).toBeUndefined();
  });

  it("is not unstaged while something has it open", async () => {
    const volume = await newVolume(BLOCK);
    await volume.use("node-a");
    const device = openSync(loopOf(volume.volumeId) ?? "", "r");
    await volume.unpublish("node-a");
    await expect(volume.unstage("node-a")).rejects.toMatchObject(refusedWith(status.FAILED_PRECONDITION, "in use"));
    closeSync(device);
    await volume.unstage("node-a");
  });
});

describeReal("the switches of the member driver", ["root", "loop", "btrfs"], () => {
  it("lose the reply of a CreateVolume: the volume is there, and a repeat finds it", async () => {
    for (const [loseReply, code, patienceMs] of [
      ["cut", status.UNAVAILABLE, 30_000],
      ["unanswered", status.DEADLINE_EXCEEDED, 1000],
    ] as const) {
      writeSwitches(driver.directory, { faults: [{ rpc: "CreateVolume", loseReply, times: 1 }] });
      const { controller } = driver;
      const request = {
        ...{ name: loseReply, capacityRange: undefined, volumeCapabilities: [FILESYSTEM], parameters: {}, secrets: {} },
        ...{ volumeContentSource: undefined, accessibilityRequirements: undefined, mutableParameters: {} },
      };
      const create = (deadlineMs: number) => call(controller.createVolume.bind(controller), request, deadlineMs);
      const made = async () => (await listed()).filter((id) => nameOf(id) === loseReply);
      await expect(create(patienceMs)).rejects.toMatchObject({ code });
      await waitFor("the volume that nobody was told of", async () => (await made())[0]);
      const [lost, ...others] = await made();
      expect(others).toEqual([]);
      expect((await create(30_000)).volume?.volumeId).toBe(lost);
      expect(await made()).toEqual([lost]);
    }
  });

  it("lose the reply of a NodeStageVolume: the volume is staged", async () => {
    const volume = await newVolume();
    const context = await volume.attach("node-a");
    writeSwitches(driver.directory, { faults: [{ rpc: "NodeStageVolume", loseReply: "cut", times: 1 }] });
    await expect(volume.stage("node-a", context)).rejects.toMatchObject({ code: status.UNAVAILABLE });
    expect(loopOf(volume.volumeId)).toBeDefined();
    await volume.stage("node-a", context);
    await volume.publish("node-a");
  });

  it("refuse a call as often as they say, on the node and for the volume that they name, and nothing is done", async () => {
    const volume = await newVolume();
    const context = await volume.attach("node-a");
    const fault = { rpc: "NodeStageVolume", refuse: "RESOURCE_EXHAUSTED" } as const;
    const others = [
      { ...fault, part: "node-b" },
      { ...fault, volumeId: "vol-other" },
    ];
    for (let writing = 0; writing < 2; writing += 1) {
      writeSwitches(driver.directory, { faults: [...others, { ...fault, times: 2 }] });
      for (let time = 0; time < 2; time += 1)
        await expect(volume.stage("node-a", context)).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED });
      expect(loopOf(volume.volumeId)).toBeUndefined();
    }
    await volume.stage("node-a", context);
  });

  it("slow a call down, and the log tells each call's time, its end and no secret", async () => {
    writeSwitches(driver.directory, {
      faults: [{ rpc: "CreateVolume", delayMs: 200 }],
      secrets: { CreateVolume: { password: "canary" } },
    });
    await expect(createVolume(driver, "bare")).rejects.toMatchObject(refusedWith(status.UNAUTHENTICATED, "password"));
    const volumeId = await createVolume(driver, "slow", { secrets: { password: "canary" } });
    expect(await listed()).toEqual([volumeId]);
    const log = readRpcLog(driver.directory).filter(({ rpc }) => rpc === "CreateVolume");
    expect(log).toMatchObject([
      { part: "controller", name: "bare", code: "UNAUTHENTICATED" },
      { part: "controller", name: "slow", code: "OK" },
    ]);
    for (const { durationMs } of log) expect(durationMs).toBeGreaterThan(199);
    expect(JSON.stringify(log)).not.toContain("canary");
  });

  it("limit the volumes of a node", async () => {
    writeSwitches(driver.directory, { maxVolumesPerNode: 1 });
    const [first, second] = [await newVolume(FILESYSTEM, "first"), await newVolume(FILESYSTEM, "second")];
    await first.attach("node-a");
    await first.attach("node-a");
    await expect(second.attach("node-a")).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    await second.attach("node-b");
    await second.detach("node-b");
    await first.detach("node-a");
    await second.attach("node-a");
    const node = driver.nodes["node-a"];
    expect(await call(node.nodeGetInfo.bind(node), {})).toMatchObject({ nodeId: "node-a", maxVolumesPerNode: 1 });
  });

  it("let the capacity run out, for new volumes and for larger ones", async () => {
    writeSwitches(driver.directory, { capacityBytes: 2 * VOLUME_BYTES });
    const volume = await newVolume(GROWING);
    await volume.use("node-a");
    await expect(volume.expand("node-a", 3 * VOLUME_BYTES)).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    await volume.expand("node-a", 2 * VOLUME_BYTES);
    await expect(createVolume(driver, "more")).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    writeSwitches(driver.directory, { capacityBytes: 3 * VOLUME_BYTES });
    await createVolume(driver, "more");
  });

  it("take block volumes away", async () => {
    writeSwitches(driver.directory, { block: false });
    await expect(newVolume(BLOCK)).rejects.toMatchObject(refusedWith(status.INVALID_ARGUMENT, "block volumes"));
    await newVolume(FILESYSTEM);
  });

  it("bind a volume to its node or zone", async () => {
    const key = "topology.member.test.tidemark.dev/zone";
    writeSwitches(driver.directory, { topology: "zone", zones: { "node-a": "left", "node-b": "right" } });
    await driver.restart();
    const topology = (zone: string) => ({ segments: { [key]: zone } });
    const inZone = (zone: string) => ({ requisite: [topology(zone)], preferred: [] });
    const volumeId = await createVolume(driver, "right", { accessibilityRequirements: inZone("right") });
    const volume = volumeLife(driver, volumeId, FILESYSTEM);
    await expect(volume.attach("node-a")).rejects.toMatchObject(refusedWith(status.FAILED_PRECONDITION, "reached"));
    await volume.attach("node-b");
    await expect(createVolume(driver, "none", { accessibilityRequirements: inZone("third") })).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
    });
  });

  it("are refused when they are misspelt", async () => {
    expect(() => writeSwitches(driver.directory, { blok: false } as object)).toThrow(/blok/);
    writeFileSync(join(driver.directory, "switches.json"), `{"faults":[{"rpc":"StageVolume"}]}`);
    await expect(createVolume(driver, "any")).rejects.toMatchObject({ code: status.INTERNAL });
  });
});

describeReal("a device of the member driver that vanishes", ["root", "loop"], () => {
  it("gives I/O errors to who writes into its filesystem, and can still be left and deleted", async () => {
    const volume = await newVolume();
    await volume.use("node-a");
    await vanish(driver.directory, volume.volumeId);
    expect(() => writeSynced(join(volume.path("node-a"), "file"))).toThrow(/EIO|EROFS/);
    const { controller } = driver;
    expect(await call(controller.controllerGetVolume.bind(controller), { volumeId: volume.volumeId })).toMatchObject({
      status: { publishedNodeIds: ["node-a"], volumeCondition: { abnormal: true } },
    });
    await volume.leave("node-a");
    await expect(volume.use("node-b")).rejects.toMatchObject(refusedWith(status.INTERNAL, "gone"));
    await volume.unstage("node-b");
    await volume.detach("node-b");
    await volume.delete();
    expect(loopDevicesUnder(driver.directory)).toEqual([]);
  });

  it("gives I/O errors to who writes to a block volume", async () => {
    const volume = await newVolume(BLOCK);
    await volume.use("node-a");
    await vanish(driver.directory, volume.volumeId);
    // Whole pages: nothing has to be read for them.
    expect(() => writeBlock(volume.path("node-a"), Buffer.alloc(MIB))).toThrow(/ENOSPC|EIO/);
    await volume.leave("node-a");
    await volume.delete();
  });
});

function nameOf(volumeId: string): string | undefined {
  return createVolumeFiles(driver.directory).volume(volumeId)?.name;
}

function writeSynced(path: string): void {
  const file = openSync(path, "w");
  try {
    writeSync(file, Buffer.alloc(MIB, 1));
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

function writeBlock(path: string, bytes: Buffer): void {
  const device = openSync(path, "r+");
  try {
    writeSync(device, bytes, 0, bytes.length, 0);
    fsyncSync(device);
  } finally {
    closeSync(device);
  }
}
