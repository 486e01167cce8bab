#!/usr/bin/env node
// The `tidemark` command: one bundle, every process. It picks what to run and says how a mistake ends; the rest is each command's own.

import { printable } from "../api/printable.ts";
import { HelpAsked } from "../process/flags.ts";

interface Command {
  readonly summary: string;
  run(args: readonly string[]): Promise<void>;
}

// Loaded when they are run: a process should not pay for the others.
const COMMANDS: Readonly<Record<string, Command>> = {
  demo: {
    summary: "watch a real filesystem breathe under load, on this machine",
    run: async (args) => (await import("../demo/demo.ts")).runDemo(args),
  },
  explain: {
    summary: "why a claim has the size it has: facts, rules, plan, and when next",
    run: async (args) => (await import("./explain.ts")).runExplain(args),
  },
  "policy-engine": {
    summary: "the process that decides",
    run: async (args) => (await import("../policy-engine/process/main.ts")).runPolicyEngine(args),
  },
  operator: {
    summary: "the process that provisions",
    run: async (args) => (await import("../operator/main.ts")).runOperator(args),
  },
  agent: {
    summary: "the process on each node",
    run: async (args) => (await import("../agent/main.ts")).runAgent(args),
  },
  extender: {
    summary: "the process that tells the scheduler where volumes fit",
    run: async (args) => (await import("../extender/main.ts")).runExtender(args),
  },
  "ca-publisher": {
    summary: "the process that says to the API server which CA has signed the pod webhook's certificate",
    run: async (args) => (await import("../ca-publisher/main.ts")).runCaPublisher(args),
  },
  lvmd: {
    summary: "the process that runs LVM, on each node that has volume groups",
    run: async (args) => (await import("../lvmd/main.ts")).runLvmd(args),
  },
  standalone: {
    summary: "the embedded control plane, for demo and tests",
    run: async (args) => (await import("../standalone/main.ts")).runStandalone(args),
  },
  "demo-writer": {
    summary: "the demo's unaware writer",
    run: async (args) => (await import("../demo/writer-process.ts")).runDemoWriter(args),
  },
};

function usage(): string {
  const width = Math.max(...Object.keys(COMMANDS).map((name) => name.length));
  const lines = Object.entries(COMMANDS).map(([name, { summary }]) => `  ${name.padEnd(width)}  ${summary}`);
  return `Usage: tidemark COMMAND [FLAGS]\n\n${lines.join("\n")}\n`;
}

async function main(): Promise<void> {
  const [name = "--help", ...args] = process.argv.slice(2);
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (command !== undefined) return run(name, command, args);
  const asked = name === "--help" || name === "help";
  (asked ? process.stdout : process.stderr).write(asked ? usage() : `tidemark: no command "${name}"\n\n${usage()}`);
  if (!asked) process.exitCode = 2;
}

/** `--help` is answered by whoever reads the flags, and is no mistake. */
async function run(name: string, { summary, run: runCommand }: Command, args: readonly string[]): Promise<void> {
  try {
    await runCommand(args);
  } catch (error) {
    if (!(error instanceof HelpAsked)) throw error;
    process.stdout.write(`tidemark ${name}: ${summary}\n\nFlags and their defaults:\n${error.message}`);
  }
}

main().catch((error: unknown) => {
  process.stderr.write(`tidemark: ${printable(error instanceof Error ? error.message : String(error))}\n`);
  process.exit(1);
});
