// Processes whose log goes to a disk that is full, a tiny filesystem of memory: they live and work, and the log goes on once there is room.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { freePort } from "../../../demo/show/run/free-port.ts";
import { BUNDLE_PATH } from "../../harness/bundle-process.ts";
import { describeReal } from "../../harness/real-parts.ts";
import { waitFor } from "../../harness/wait-for.ts";

const DISK_BYTES = 64 * 1024;
const SEVERAL_LINES_MS = 2000;

describeReal("a process whose log is on a full disk", ["root", "bundle"], () => {
  let directory: string;
  let disk: string;
  let child: ChildProcess | undefined;

  beforeEach(() => {
    directory = mkdtempSync("/dev/shm/tidemark-full-log-");
    disk = join(directory, "log");
    mkdirSync(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${DISK_BYTES}`, "tidemark-test", disk]);
  });
  afterEach(async () => {
    if (child !== undefined && child.exitCode === null && child.signalCode === null) {
      const ended = new Promise((resolve) => child?.once("exit", resolve));
      child.kill("SIGKILL");
      await ended;
    }
    execFileSync("umount", [disk]);
    rmSync(directory, { recursive: true });
  });

  /** No API server answers: there is something to log, again and again. */
  async function flagsOf(name: string, port: number): Promise<string[]> {
    const common = ["--server", "http://127.0.0.1:1", "--http-host", "127.0.0.1", "--http-port", String(port)];
    if (name === "policy-engine") return [...common, "--samples-socket", join(directory, "samples.sock")];
    for (const part of ["kubelet", "run"]) mkdirSync(join(directory, part));
    const places = { "state-directory": "state", "member-directory": "members", "kubelet-directory": "kubelet" };
    return [
      ...common,
      ...["--node-name", "node-a", "--csi-socket", join(directory, "run/csi.sock")],
      ...Object.entries(places).flatMap(([flag, place]) => [`--${flag}`, join(directory, place)]),
    ];
  }

  it.each(["agent", "policy-engine"])(
    "lives and answers as %s, and says later how much of the log is lost",
    async (name) => {
      const ballast = join(disk, "ballast");
      writeFileSync(ballast, Buffer.alloc(DISK_BYTES, 1));
      const port = await freePort();
      const log = join(disk, "log");
      const descriptor = openSync(log, "a");
      const args = [BUNDLE_PATH, name, "--log-level", "debug", ...(await flagsOf(name, port))];
      child = spawn(process.execPath, args, {
        env: { ...process.env, NODE_OPTIONS: "" },
        stdio: ["ignore", descriptor, descriptor],
      });
      closeSync(descriptor);
      expect(statfsSync(disk).bavail).toBe(0);
      const answer = (): Promise<Response> => fetch(`http://127.0.0.1:${port}/metrics`);
      await waitFor("an answer", answer, { limitMs: 30_000 });
      await pause(SEVERAL_LINES_MS);
      expect((await answer()).status).toBe(200);
      expect(statSync(log).size).toBe(0);
      rmSync(ballast);
      const lost = await waitFor("the log to go on", () =>
        readFileSync(log, "utf8")
          .split("\n")
          .find((line) => line.includes('"lostLines"')),
      );
      expect(JSON.parse(lost)).toMatchObject({ process: name, code: "ENOSPC", level: 40 });
    },
  );
});
