// A virtual machine ends with the process that has started it, however that ends, and leaves nothing: neither its kernel's processes nor its
// directories, which hold its disks in memory.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { afterEach, expect, it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";
import { waitFor } from "../harness/wait-for.ts";
import { NEWER_KERNEL, OLDER_KERNEL } from "../vm/kernels.ts";

/** Says what the kernel was started with, and goes on until it is ended. */
const COMMAND = "cat /proc/cmdline; sleep infinity";
const STARTER = `
const { spawn } = require("node:child_process");
const child = spawn("test/vm/run-in-vm.sh", ["64M", "sh", "-c", ${JSON.stringify(COMMAND)}], { stdio: "inherit" });
child.once("spawn", () => console.log("script " + child.pid));
`;
/** Longer than any test waits: the machine's own limit is not what ends it. */
const VM_SECONDS = "3600";

interface Machine {
  readonly starter: ChildProcess;
  /** Of run-in-vm.sh. */
  readonly scriptPid: number;
  readonly directories: readonly string[];
}

describeReal("a virtual machine", ["root", "uml"], () => {
  let starter: ChildProcess | undefined;

  afterEach(() => {
    if (starter?.pid !== undefined && starter.exitCode === null && starter.signalCode === null)
      process.kill(-starter.pid, "SIGTERM");
  });

  async function startMachine(): Promise<Machine> {
    const started = spawn(process.execPath, ["-e", STARTER], {
      env: { ...process.env, NODE_OPTIONS: "", VM_SECONDS },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    starter = started;
    let said = "";
    for (const stream of [started.stdout, started.stderr])
      stream.on("data", (text: Buffer) => (said += text.toString()));
    const found = await waitFor(
      "the machine to say what it was started with",
      () => /script (\d+)[^]* work=(\S+)[^]* ubda=(\S+)\/a/.exec(said) ?? undefined,
      { otherwise: () => said },
    );
    const [, pid = "", work = "", disks = ""] = found;
    const machine = { starter: started, scriptPid: Number(pid), directories: [work, disks] };
    expect({ runs: processesOf(machine).length > 0, left: leftOf(machine) }).toEqual({
      runs: true,
      left: machine.directories,
    });
    return machine;
  }

  it("ends when the process that has started it is killed", async () => {
    const machine = await startMachine();
    machine.starter.kill("SIGKILL");
    await untilGone(machine);
  });

  it("ends when its starter and its script are killed at once, as a suite is that takes too long", async () => {
    const machine = await startMachine();
    process.kill(-(machine.starter.pid ?? 0), "SIGKILL");
    await untilGone(machine);
  });

  it("ends when its script alone is killed", async () => {
    const machine = await startMachine();
    process.kill(machine.scriptPid, "SIGKILL");
    await untilGone(machine);
  });
});

for (const kernel of [OLDER_KERNEL, NEWER_KERNEL])
  describeReal(`a virtual machine under the kernel ${kernel.name}`, ["root", ...kernel.parts], () => {
    it("starts where it is held on one core", () => {
      const command = ["sh", "-c", "echo done"];
      const { stdout, stderr, status } = spawnSync("test/vm/run-in-vm.sh", ["64M", ...command], {
        encoding: "utf8",
        env: { ...process.env, ...kernel.environment, NODE_OPTIONS: "", VM_CORE: "0" },
      });
      // The shell may say on stderr that it has ended its clock.
      expect({ stdout, status, stderr: status === 0 ? "" : stderr }).toEqual({
        stdout: "done\n",
        status: 0,
        stderr: "",
      });
    });
  });

async function untilGone(machine: Machine): Promise<void> {
  await waitFor(
    "nothing of the machine to be left",
    () => (processesOf(machine).length === 0 && leftOf(machine).length === 0 ? true : undefined),
    { otherwise: () => `processes ${processesOf(machine).join()}, ${leftOf(machine).join()}` },
  );
}

/** Every process of the kernel is called as the kernel was started. */
function processesOf({ directories: [work = ""] }: Machine): string[] {
  return readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && commandLineOf(pid).includes(work));
}

function commandLineOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return ""; // It has ended.
  }
}

function leftOf({ directories }: Machine): string[] {
  return directories.filter((path) => existsSync(path));
}
