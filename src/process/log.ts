// Structured logs, one JSON object a line on stderr. Errors are logged once, at the loop that gives up on them.
import { type Logger, pino } from "pino";
import { printable } from "../api/printable.ts";
import { createLogDestination } from "./log-destination.ts";

export type { Logger } from "pino";

export const LOG_LEVELS = ["debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

const STDERR = 2;
/** As pino numbers it. */
const WARN = 40;

const REMEDIES: Readonly<Record<string, string>> = {
  ENOSPC: "Free space where the log is written",
  EDQUOT: "Free space, or raise the quota, where the log is written",
  EPIPE: "Look why what reads the log had ended",
  EAGAIN: "Look why what reads the log was too slow",
};

export function remedyFor(code: string): string {
  return REMEDIES[code] ?? "Look at the node's kernel log for errors where the log is written";
}

export function createLogger(processName: string, level: LogLevel): Logger {
  const lostLine = (lostLines: number, code: string): string =>
    `${JSON.stringify({
      level: WARN,
      time: new Date().toISOString(),
      ...{ process: processName, lostLines, code },
      msg: `${remedyFor(code)}: ${lostLines} lines of the log are lost before this one (${code})`,
    })}\n`;
  return pino(
    {
      level,
      base: { process: processName },
      timestamp: pino.stdTimeFunctions.isoTime,
      // JSON leaves characters that a terminal acts on.
      hooks: { streamWrite: printable },
    },
    createLogDestination(STDERR, lostLine),
  );
}
