import { describe, expect, it } from "@jest/globals";
import { LvmError } from "../../../../src/lvmd/lvm/lvm-error.ts";
import { createPoolReconciler } from "../../../../src/lvmd/pools/thin-pools.ts";
import { createVolume } from "../../../../src/lvmd/volumes/create-volume.ts";
import { unreportedFill } from "../../../../src/lvmd/volumes/sizes.ts";
import { createSnapshot } from "../../../../src/lvmd/volumes/snapshots.ts";
import type { VolumeHost } from "../../../../src/lvmd/volumes/volume-host.ts";
import { hostWithReport } from "../host-with-report.ts";
import { deviceClass, GIB, groupOf, MIB, volume } from "../lvm-facts.ts";

const THIN = deviceClass({ thinPool: { name: "pool", overprovisionRatio: 10 } });
const ZERO = ["lvchange", "-Z", "y", "g/pool"];
const ACTIVATE = ["lvchange", "-a", "y", "-K", "g/pool"];

/** LVM does to the pool what it is told, until `fails`; reports show it. */
function hostOf(attr: string, more: { fails?: string[]; attr?: string; underVolumes?: boolean } = {}) {
  const run: string[][] = [];
  let now = attr;
  const setAttr = (value: string): void => {
    now = value;
  };
  const group = () => {
    const dataPercent = now.charAt(4) === "-" && more.underVolumes !== true ? Number.NaN : 0;
    const pool = volume({ name: "pool", attr: now, sizeBytes: GIB, chunkBytes: 65_536, dataPercent });
    return { ...groupOf([GIB], [pool, volume({ name: "old", pool: "pool" })]), attr: more.attr ?? "wz--n-" };
  };
  const report = () => new Map([["g", group()]]);
  const lvm: VolumeHost["lvm"] = {
    query: async () => "",
    run: async (_point, subcommand, args) => {
      const command = [subcommand, ...args];
      run.push(command);
      if (command.join() === more.fails?.join()) throw new LvmError("Failed", `${command.join(" ")} failed`);
      if (command.join() === ZERO.join()) setAttr(`${now.slice(0, 7)}z${now.slice(8)}`);
      if (command.join() === ACTIVATE.join()) setAttr(`${now.slice(0, 4)}a${now.slice(5)}`);
      return "";
    },
  };
  const reports: Partial<VolumeHost["reports"]> = {
    latest: report,
    fresh: async () => report(),
    note: () => undefined,
    expectChange: () => undefined,
  };
  const host: VolumeHost = {
    ...hostWithReport(THIN, []),
    lvm,
    reports: reports as VolumeHost["reports"],
    log: { warn: () => undefined, error: () => undefined } as Partial<VolumeHost["log"]> as VolumeHost["log"],
  };
  const reconciling = createPoolReconciler(host);
  return {
    host,
    run,
    setAttr,
    /** Until all that it has begun has ended. */
    look: async () => {
      reconciling.look();
      await host.queues.run("g", async () => undefined);
      await host.queues.run("g", async () => undefined);
    },
    problem: () => {
      const pool = volume({ name: "pool", attr: now, dataPercent: Number.NaN });
      return unreportedFill(
        { group: group(), thin: { settings: { name: "pool", overprovisionRatio: 1 }, pool } },
        host.poolProblems,
      );
    },
  };
}

describe("a class' thin pool", () => {
  it.each<[string, string, string[][]]>([
    ["zeroes and is active", "twi-aotz--", []],
    ["does not zero", "twi-aot---", [ZERO]],
    ["is not active", "twi---tz--", [ACTIVATE]],
    ["is neither", "twi---t---", [ZERO, ACTIVATE]],
    ["has failed", "twi-aotzF-", []],
  ])("that %s has done to it what is missing, once", async (_what, attr, commands) => {
    const { run, look } = hostOf(attr);
    await look();
    await look();
    expect(run).toEqual(commands);
  });

  it("that an administrator deactivates later stays so; one that is told not to zero any more is not left so", async () => {
    const { run, look, setAttr, problem } = hostOf("twi---tz--");
    await look();
    await look();
    setAttr("twi---tz--");
    await look();
    expect(run).toEqual([ACTIVATE]);
    expect(problem()).toContain(
      'it is not active. lvmd activates it once, when it finds it so first; then "lvchange -a y -K g/pool" does',
    );
    setAttr("twi-aot---");
    await look();
    expect(run).toEqual([ACTIVATE, ZERO]);
  });

  it("that was active before lvmd looked is not activated once an administrator deactivates it", async () => {
    const { run, look, setAttr } = hostOf("twi-aotz--");
    await look();
    setAttr("twi---tz--");
    await look();
    expect(run).toEqual([]);
  });

  it("that cannot be activated is tried once, and LVM's words are told until it is active", async () => {
    const { run, look, setAttr, problem, host } = hostOf("twi---tz--", { fails: ACTIVATE });
    await look();
    await look();
    expect(run).toEqual([ACTIVATE]);
    expect(problem()).toContain("could not be activated: lvchange -a y -K g/pool failed");
    setAttr("twi-aotzF-");
    await look();
    expect(problem()).toContain("it has failed");
    expect(host.poolProblems.size).toBe(0);
  });

  it("that is active under its volumes alone stays so", async () => {
    const { run, look } = hostOf("twi---tz--", { underVolumes: true });
    await look();
    expect(run).toEqual([]);
  });

  it("in a group that LVM changes nothing in is left alone", async () => {
    const { run, look } = hostOf("twi---t---", { attr: "rz--n-" });
    await look();
    expect(run).toEqual([]);
  });
});

describe("a volume in a pool that does not zero", () => {
  const order = { name: "new", deviceClass: "class", tags: [] };
  const copy = { ...order, source: "old", access: "rw", sizeBytes: 0 };

  it.each<[string, (host: VolumeHost) => Promise<unknown>]>([
    ["volume", (host) => createVolume(host, { ...order, optionClass: "", sizeBytes: 4 * MIB })],
    ["copy", (host) => createSnapshot(host, copy)],
  ])("is made once the pool does: a %s", async (_what, make) => {
    const { host, run } = hostOf("twi-aot---");
    // No report of this host ever shows what was made.
    await expect(make(host)).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(run.slice(0, 2)).toEqual([ZERO, expect.arrayContaining(["lvcreate"])]);
  });

  it("is not made where LVM cannot let it zero", async () => {
    const { host, run } = hostOf("twi-aot---", { fails: ZERO });
    await expect(createVolume(host, { ...order, optionClass: "", sizeBytes: 4 * MIB })).rejects.toThrow("failed");
    await expect(createSnapshot(host, copy)).rejects.toThrow("failed");
    expect(run).toEqual([ZERO, ZERO]);
  });
});
