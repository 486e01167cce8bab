// How many programs a process and its children start in a while, as strace sees it.
import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";

/** New threads are no programs: only what becomes one, by execve, counts. */
export async function startedPrograms(pid: number, whileMs: number): Promise<number> {
  const strace = spawn("strace", ["-f", "-q", "-e", "trace=execve", "-p", String(pid)], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  strace.stderr.on("data", (chunk: Buffer) => {
    said += chunk.toString();
  });
  const ended = new Promise<void>((resolve) => strace.once("exit", () => resolve()));
  await sleep(whileMs);
  if (strace.exitCode !== null) throw new Error(`strace ended too early: ${said}`);
  strace.kill("SIGINT");
  await ended;
  return said.split("\n").filter((line) => line.includes("execve(")).length;
}
