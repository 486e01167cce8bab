// One boot of the machine, and the power cut that ends it: the host kills it by SIGKILL, at the moment that was planned.
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Cut } from "./cut-plan.ts";
import type { Disk, MachineSettings } from "./machine-settings.ts";

const RUN_IN_VM = fileURLToPath(new URL("../run-in-vm.sh", import.meta.url));
const BOOT_LIMIT_S = 240;
const SAID_IN_MESSAGE = 40;

export interface Boot {
  readonly disk: Disk;
  /** Line by line. */
  readonly said: readonly string[];
  readonly atMs: readonly number[];
}

/** When the power goes. */
export interface PlannedCut {
  readonly cut: Cut;
  readonly delayMs: number;
}

/** Throws where it ends by itself before the power goes, and without a cut where it does not end well. */
export async function boot(
  machine: MachineSettings,
  environment: Readonly<Record<string, string>>,
  planned: PlannedCut | undefined,
): Promise<Boot> {
  const { directory, disk } = machine;
  const disks = disk === "Direct" ? `${directory}/data ${directory}/state` : "";
  const child = spawn(RUN_IN_VM, [disks, process.execPath, "machine.cjs", JSON.stringify(machine)], {
    cwd: directory,
    env: {
      ...process.env,
      NODE_OPTIONS: "",
      VM_MEMORY: "1G",
      VM_MODULES: "loop dm-mod dm-thin-pool dm-snapshot",
      VM_SECONDS: String(BOOT_LIMIT_S),
      ...environment,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const { said, atMs, ended, wasCut } = listen(child, child.stdout, planned);
  const { status, stderr } = await ended;
  if (planned === undefined ? status !== 0 || said.at(-1) !== "ended" : !wasCut())
    throw new Error(
      `boot ${machine.boot} (${JSON.stringify({ machine, planned })}) ended with ${status}: ` +
        `${said.slice(-SAID_IN_MESSAGE).join("\n")}\n${stderr}`,
    );
  return { disk, said, atMs };
}

interface Listening {
  readonly said: string[];
  readonly atMs: number[];
  readonly ended: Promise<{ readonly status: number | null; readonly stderr: string }>;
  readonly wasCut: () => boolean;
}

function listen(child: ChildProcess, stdout: Readable, planned: PlannedCut | undefined): Listening {
  const said: string[] = [];
  const atMs: number[] = [];
  let stderr = "";
  let isCut = false;
  let isDue = false;
  createInterface({ input: stdout }).on("line", (line) => {
    said.push(line);
    atMs.push(performance.now());
    if (planned === undefined || isDue) return;
    // One that waits for what this boot has not come by comes in the end.
    isDue = isSaid(line, planned.cut.line) || isSaid(line, "waiting");
    if (isDue) void pause(planned.delayMs).then(cutPower);
  });
  const cutPower = (): void => {
    // What has failed before is not the cut's doing.
    if (child.exitCode !== null || said.some((line) => isSaid(line, "failed"))) return;
    isCut = true;
    child.kill("SIGTERM");
  };
  child.stderr?.on("data", (text: Buffer) => {
    stderr += text.toString();
  });
  const ended = new Promise<{ status: number | null; stderr: string }>((resolve) => {
    child.once("close", (status) => resolve({ status, stderr }));
  });
  return { said, atMs, ended, wasCut: () => isCut };
}

/** A line is what it says, and more of it. */
export function isSaid(line: string, what: string): boolean {
  return line === what || line.startsWith(`${what} `);
}
