// The system programs that the demo runs for its own, unmanaged filesystem and for cleaning up. Every other command of a run
// is the agent's.
import { CommandError, type CommandPort } from "../../../src/platform/process/effects/command-port.ts";
import type { EffectPoint } from "../../../src/platform/process/effects/effects.ts";

const TIME_LIMIT_MS = 30_000;

/** The program's stdout, trimmed. Throws CommandError, also when it exits with an error. */
export async function runCommand(
  commands: CommandPort,
  point: EffectPoint,
  path: `/${string}`,
  args: readonly string[],
): Promise<string> {
  const { exitCode, stdout, stderr } = await commands.run(point, path, args, { timeLimitMs: TIME_LIMIT_MS });
  if (exitCode !== 0)
    throw new CommandError(
      "Failed",
      [path, ...args].join(" "),
      `exit code ${exitCode}: ${stderr.trim() || "no message"}`,
    );
  return stdout.trim();
}
