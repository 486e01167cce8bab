// A program that lives as long as the test does: it ends with its starter, however that ends, and its output is in a file.
import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { programEnvironment } from "../cluster/run-program.ts";

const LAST_LINES = 15;

export interface Program {
  isRunning(): boolean;
  lastLines(): string;
  /** By SIGKILL: what it leaves is thrown away. Resolves when it is gone. */
  stop(): Promise<void>;
}

export function startProgram(
  directory: string,
  name: string,
  binary: string,
  flags: Readonly<Record<string, string>>,
): Program {
  const log = join(directory, `${name}.log`);
  const output = openSync(log, "a");
  const args = Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`);
  const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", binary, ...args], {
    stdio: ["ignore", output, output],
    env: programEnvironment(),
  });
  closeSync(output);
  const ended = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
    child.once("error", () => resolve());
  });
  const isRunning = (): boolean => child.pid !== undefined && child.exitCode === null && child.signalCode === null;
  return {
    isRunning,
    lastLines: () => readFileSync(log, "utf8").trimEnd().split("\n").slice(-LAST_LINES).join("\n"),
    stop: async () => {
      child.kill("SIGKILL");
      await ended;
    },
  };
}
