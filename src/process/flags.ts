// The flags that every process has, and how a flag's text becomes a value. What a process adds is its own config.ts'. Pure: flags
// and environment are handed in; a refusal is an Error whose sentence names the flag, what was given and what can be.
import { type ParseArgsConfig, parseArgs } from "node:util";
import { DurationError, formatDuration, parseDuration } from "../units/duration.ts";
import { parseQuantity, QuantityError } from "../units/quantity.ts";
import { type FaultSettings, parsePlantedFaults } from "./fault-effects.ts";
import { LOG_LEVELS, type LogLevel } from "./log.ts";

type FlagsConfig = NonNullable<ParseArgsConfig["options"]>;

/** Somebody asked for help, and this is it. */
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

/** What every process that serves metrics is told. */
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
    throw new Error(`--${flag} ${text} is no port between 0 and ${PORT_LIMIT}`);
  return port;
}

export function oneOfFlag<T extends string>(flag: string, text: string, known: readonly T[]): T {
  const value = known.find((candidate) => candidate === text);
  if (value === undefined) throw new Error(`--${flag} ${text} is none of ${known.join(", ")}`);
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
