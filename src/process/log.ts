// Structured logs, one JSON object a line on stderr. Errors are logged once, at the loop that gives up on them.
import { type Logger, pino } from "pino";
import { createLogDestination } from "./log-destination.ts";

export type { Logger } from "pino";

export const LOG_LEVELS = ["debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

const STDERR = 2;
/** As pino numbers it. */
const WARN = 40;

export function createLogger(processName: string, level: LogLevel): Logger {
  const lostLine = (lostLines: number, code: string): string =>
    `${JSON.stringify({
      level: WARN,
      time: new Date().toISOString(),
      ...{ process: processName, lostLines, code },
      msg: `Free space where the log is written: ${lostLines} of its lines are lost before this one (${code})`,
    })}\n`;
  return pino(
    { level, base: { process: processName }, timestamp: pino.stdTimeFunctions.isoTime },
    createLogDestination(STDERR, lostLine),
  );
}
