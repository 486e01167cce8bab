// What every process reads from outside: its command, its common flags, how a flag's text becomes a value, and the downward API. Pure:
// flags and environment are parameters. An Error names the flag, what was given and what is possible.
import { BlockList, isIP, isIPv6 } from "node:net";
import { hostname } from "node:os";
import { type ParseArgsConfig, parseArgs } from "node:util";
import { printable } from "../../contracts/printable.ts";
import { DurationError, formatDuration, parseDuration } from "../../contracts/quantities/duration.ts";
import { parseQuantity, QuantityError } from "../../contracts/quantities/quantity.ts";
import { type FaultSettings, parsePlantedFaults } from "./effects/effects.ts";
import { LOG_LEVELS, type LogLevel } from "./log.ts";

type FlagsConfig = NonNullable<ParseArgsConfig["options"]>;

/** The user asked for help, and this is it. */
export class HelpAsked extends Error {
  override name = "HelpAsked";
}

/** The values of a process' flags. One that it does not have is refused, with those that it has and their defaults. */
export function readFlags<T extends FlagsConfig>(flags: T, args: readonly string[]) {
  if (args.includes("--help"))
    throw new HelpAsked(
      Object.entries(flags)
        .map((flag) => `  ${describeFlag(flag)}\n`)
        .join(""),
    );
  try {
    return parseArgs({ args: [...args], options: flags, strict: true }).values;
  } catch (error) {
    const [refusal] = (error as Error).message.split(". ");
    throw new Error(`${refusal}; the flags are: ${Object.entries(flags).map(describeFlag).join(", ")}`, {
      cause: error,
    });
  }
}

function describeFlag([name, { default: value }]: [string, FlagsConfig[string]]): string {
  return value === undefined ? `--${name}` : `--${name} (${String(value)})`;
}

/** For readFlags; each process adds its own "http-port" to them. */
export const PROCESS_FLAGS = {
  "http-host": { type: "string", default: "0.0.0.0" },
  "log-level": { type: "string", default: "info" },
} as const;

/** The settings of every process that serves metrics. */
export interface ProcessSettings extends FaultSettings {
  readonly httpHost: string;
  readonly httpPort: number;
  readonly logLevel: LogLevel;
}

type ProcessFlagValues = Readonly<Record<keyof typeof PROCESS_FLAGS | "http-port", string>>;

export function readProcessSettings(flags: ProcessFlagValues, environment: NodeJS.ProcessEnv): ProcessSettings {
  return {
    httpHost: flags["http-host"],
    httpPort: portFlag("http-port", flags["http-port"]),
    logLevel: oneOfFlag("log-level", flags["log-level"], LOG_LEVELS),
    faults: parsePlantedFaults(environment["TIDEMARK_FAULT"]),
    effectLog: environment["TIDEMARK_EFFECT_LOG"],
  };
}

const PORT_LIMIT = 65_535;

/** 0 lets the system pick a free port. */
export function portFlag(flag: string, text: string): number {
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > PORT_LIMIT)
    throw new Error(`--${flag} ${text} is not a port between 0 and ${PORT_LIMIT}`);
  return port;
}

export function oneOfFlag<T extends string>(flag: string, text: string, known: readonly T[]): T {
  const value = known.find((candidate) => candidate === text);
  if (value === undefined) throw new Error(`--${flag} ${text} is not one of ${known.join(", ")}`);
  return value;
}

/** Milliseconds, at least `leastMs`: an interval of nothing would be a busy loop. */
export function durationFlag(flag: string, text: string, leastMs: number): number {
  const durationMs = readDuration(flag, text);
  if (durationMs < leastMs) throw new Error(`--${flag} ${text} is shorter than ${formatDuration(leastMs)}`);
  return durationMs;
}

function readDuration(flag: string, text: string): number {
  try {
    return parseDuration(text);
  } catch (error) {
    if (error instanceof DurationError) throw new Error(`--${flag}: ${error.message}`, { cause: error });
    throw error;
  }
}

/** Bytes. */
export function quantityFlag(flag: string, text: string): number {
  try {
    return parseQuantity(text);
  } catch (error) {
    if (error instanceof QuantityError) throw new Error(`--${flag}: ${error.message}`, { cause: error });
    throw error;
  }
}

// The downward API (POD_NAMESPACE, NODE_NAME, POD_SERVICE_ACCOUNT); outside a pod the names of a standalone run hold.

const STANDALONE_NAMESPACE = "tidemark-system";

/** The namespace of our own Leases, Secrets and Services. */
export function ownNamespace(environment: NodeJS.ProcessEnv): string {
  return environment["POD_NAMESPACE"] ?? STANDALONE_NAMESPACE;
}

export function ownNodeName(environment: NodeJS.ProcessEnv): string {
  return environment["NODE_NAME"] ?? hostname();
}

/** The pod's user, as the API server names it in requests; undefined outside a pod. */
export function ownUserName(environment: NodeJS.ProcessEnv): string | undefined {
  const { POD_NAMESPACE: namespace, POD_SERVICE_ACCOUNT: name } = environment;
  return namespace && name ? `system:serviceaccount:${namespace}:${name}` : undefined;
}

export interface Address {
  /** A name or an IP address, without brackets. */
  readonly host: string;
  readonly port: number;
}

/** "host:port" or "[IPv6]:port". Throws with a sentence that names the flag. */
export function addressFlag(flag: string, text: string): Address {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || port > PORT_LIMIT || (match?.[1] !== undefined && !isIPv6(host)))
    throw new Error(`--${flag} ${text} is not HOST:PORT (write an IPv6 address in brackets)`);
  return { host, port };
}

export function formatAddress({ host, port }: Address): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`;
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");

/** True where no other machine can connect to, or answer. A name other than "localhost" may lead anywhere. */
export function isLoopback(host: string): boolean {
  const family = isIP(host);
  return family === 0 ? host === "localhost" : LOOPBACK.check(host, family === 6 ? "ipv6" : "ipv4");
}

// A program of several commands: it picks the one to run and says how a mistake ends; the rest is each command's own.

interface Command {
  /** For the list of commands: one line. */
  readonly summary: string;
  run(args: readonly string[]): Promise<void>;
}

/** By name. */
type Commands = Readonly<Record<string, Command>>;

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

/** The reader of the flags answers `--help`, which is not a mistake. */
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
