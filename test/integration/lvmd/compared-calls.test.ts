// The page's table of calls that lvmd answers otherwise than TopoLVM's: each row is made, on LVM's own metadata and loop devices. Those of a
// thin class are made in test/vm/lvmd/thin.vm.ts.
import { mkdtempSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { readConfig } from "../../../src/lvmd/config.ts";
import { startLvmd } from "../../../src/lvmd/start-lvmd.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import type { Stoppable } from "../../../src/platform/process/shutdown.ts";
import { COMPARED_CALLS, callsOn, makeCall, readComparedRows } from "../../harness/compared-calls.ts";
import { describeReal } from "../../harness/real-parts.ts";
import { createLvmOnLoop, type LvmOnLoop } from "../../lvm-on-loop/lvm-on-loop.ts";
import { connect, type LvmdClients, writeSettings } from "../../vm/lvmd/lvmd-under-test.ts";

const rows = readComparedRows();

describe("the table of calls", () => {
  it("names each call once, and no other one", () => {
    expect(rows.map(({ call }) => call)).toEqual(COMPARED_CALLS);
  });

  it("says of each what both answer, and why", () => {
    expect(rows.filter(({ theirs, here, why }) => [theirs, here, why].includes(""))).toEqual([]);
  });
});

describeReal("lvmd, beside TopoLVM's", ["root", "loop", "lvm"], () => {
  let directory: string;
  let ground: LvmOnLoop;
  let parts: Stoppable[];
  let clients: LvmdClients;
  let group: string;

  beforeAll(async () => {
    directory = mkdtempSync("/dev/shm/tidemark-compared-");
    ground = await createLvmOnLoop(join(directory, "lvm"));
    // Named so that LVM's order of groups is not that of lvmd.yaml.
    const groups = ["b", "a"].map((letter) => `${basename(directory)}-${letter}`);
    for (const name of groups) await ground.addGroup(name, GIB);
    [group = ""] = groups;
    const { socket, args } = writeSettings(
      directory,
      { program: ground.command },
      `device-classes:\n- { name: thick, volume-group: ${group}, default: true, spare-gb: 0 }\n` +
        `- { name: spare, volume-group: ${groups[1]}, spare-gb: 10 }\n`,
      ["--lvm-backup-directory", join(ground.directory, "backup")],
    );
    parts = await startLvmd(readConfig(args, {}), createLogger("lvmd", "silent"));
    clients = connect(socket);
  });

  afterAll(async () => {
    clients.close();
    for (const { stop } of [...parts].reverse()) await stop();
    await ground.remove();
    rmSync(directory, { recursive: true, force: true });
  });

  it.each(callsOn("thick"))("answers as the page says: %s", async (call) => {
    expect(await makeCall(call, { clients, group })).toBe(rows.find((row) => row.call === call)?.here);
  });
});
