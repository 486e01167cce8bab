// A program of several commands: it picks the one to run and says how a mistake ends; the rest is each command's own.
import { printable } from "../api/printable.ts";
import { HelpAsked } from "./flags.ts";

export interface Command {
  /** For the list of commands: one line. */
  readonly summary: string;
  run(args: readonly string[]): Promise<void>;
}

/** By name. */
export type Commands = Readonly<Record<string, Command>>;

/** Runs what `process.argv` names. Exit code 2: there is no such command; 1: it failed, with its message on stderr. */
export async function runCommandLine(program: string, commands: Commands): Promise<void> {
  try {
    await runNamed(program, commands, process.argv.slice(2));
  } catch (error) {
    process.stderr.write(`${program}: ${printable(error instanceof Error ? error.message : String(error))}\n`);
    process.exit(1);
  }
}

async function runNamed(program: string, commands: Commands, [name = "--help", ...args]: string[]): Promise<void> {
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command !== undefined) return run(`${program} ${name}`, command, args);
  const isAsked = name === "--help" || name === "help";
  const text = usage(program, commands);
  (isAsked ? process.stdout : process.stderr).write(isAsked ? text : `${program}: no command "${name}"\n\n${text}`);
  if (!isAsked) process.exitCode = 2;
}

/** `--help` is answered by what reads the flags, and is no mistake. */
async function run(name: string, { summary, run: runCommand }: Command, args: readonly string[]): Promise<void> {
  try {
    await runCommand(args);
  } catch (error) {
    if (!(error instanceof HelpAsked)) throw error;
    process.stdout.write(`${name}: ${summary}\n\nFlags and their defaults:\n${error.message}`);
  }
}

function usage(program: string, commands: Commands): string {
  const width = Math.max(...Object.keys(commands).map((name) => name.length));
  const lines = Object.entries(commands).map(([name, { summary }]) => `  ${name.padEnd(width)}  ${summary}`);
  return `Usage: ${program} COMMAND [FLAGS]\n\n${lines.join("\n")}\n`;
}
