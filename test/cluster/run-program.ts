// Runs a command of this machine to its end. What it says is its caller's; a failure is an error that quotes it.
import { execFile } from "node:child_process";
import { promisify } from "node:util";

const OUTPUT_LIMIT_BYTES = 16 * 1024 * 1024;
const TIME_LIMIT_MS = 120_000;

const execute = promisify(execFile);

export interface RunOptions {
  readonly input?: string;
  readonly directory?: string;
  readonly timeLimitMs?: number;
}

/** Its stdout. Debian keeps network and mount tools where not every PATH looks. */
export async function runProgram(command: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  const running = execute(command, [...args], {
    cwd: options.directory,
    env: programEnvironment(),
    maxBuffer: OUTPUT_LIMIT_BYTES,
    timeout: options.timeLimitMs ?? TIME_LIMIT_MS,
  });
  running.child.stdin?.on("error", () => undefined); // it may end without reading
  running.child.stdin?.end(options.input ?? "");
  try {
    return (await running).stdout;
  } catch (error) {
    const { stderr = "", stdout = "" } = error as { stderr?: string; stdout?: string };
    const said = stderr.trim() || stdout.trim() || (error as Error).message;
    throw new Error(`${command} ${args.join(" ")} failed: ${said}`, { cause: error });
  }
}

export function programEnvironment(): NodeJS.ProcessEnv {
  return { ...process.env, PATH: `${process.env["PATH"] ?? ""}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin` };
}
