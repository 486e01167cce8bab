// Runs inside the virtual machine: real LVM with device-mapper, the bundle's lvmd on one disk, the bare command on the other. Its
// argument is the number of pairs, its last line of stdout a Creation.
import { execFileSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLvmdProcess } from "../../test/harness/lvmd-process.ts";
import { measureCreation } from "./creation.ts";

const [SERVED, BARE] = ["served", "bare"];

async function main(): Promise<void> {
  execFileSync("/sbin/lvm", ["vgcreate", "--quiet", SERVED, "/dev/ubda"]);
  execFileSync("/sbin/lvm", ["vgcreate", "--quiet", BARE, "/dev/ubdb"]);
  const lvmd = await createLvmdProcess(mkdtempSync(join(tmpdir(), "bench-")), {
    group: SERVED,
    prefix: ["/sbin/lvm"],
    backupDirectory: "/etc/lvm/backup",
  });
  await lvmd.start();
  const creation = await measureCreation(lvmd.socket, BARE, Number(process.argv[2]));
  await lvmd.process.stop();
  process.stdout.write(`${JSON.stringify(creation)}\n`);
}

main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  process.exitCode = 1;
});
