// Structured logs, one JSON object a line on stderr. Errors are logged once, at the loop that gives up on them.
import { type Logger, pino } from "pino";

export type { Logger } from "pino";

export const LOG_LEVELS = ["debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export function createLogger(processName: string, level: LogLevel): Logger {
  return pino(
    { level, base: { process: processName }, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination({ fd: 2, sync: true }),
  );
}
