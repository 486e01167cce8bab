// Structured logs, one JSON object a line on stderr. Errors are logged once, at the loop that gives up on them.

import { writeSync } from "node:fs";
import { type Logger, pino } from "pino";
import { printable } from "../../contracts/printable.ts";

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

/**
 * Where log lines go: a descriptor that is written to at once. What it does not take is lost, counted and reported later: a full disk, or a
 * closed pipe, ends no process.
 */
interface LogDestination {
  write(line: string): void;
}

/** A pipe that is full for a moment is waited for, and holds the process up for no longer than this. */
const FULL_PIPE_WAIT_MS = 10;
const FULL_PIPE_WAITS = 10;
const LINE_END = "\n".charCodeAt(0);

/** `lostLine`: the line, with its end, that says how many are missing before it, and by which error code. */
function createLogDestination(
  descriptor: number,
  lostLine: (lostLines: number, code: string) => string,
): LogDestination {
  let lost = { lines: 0, code: "" };
  let endsInLine = false;
  return {
    write: (line) => {
      const torn = endsInLine ? "\n" : "";
      const missing = lost.lines === 0 ? "" : lostLine(lost.lines, lost.code);
      const bytes = Buffer.from(torn + missing + line);
      const { written, code } = writeAll(descriptor, bytes);
      if (written > 0) endsInLine = bytes[written - 1] !== LINE_END;
      lost = code === undefined ? { lines: 0, code: "" } : { lines: lost.lines + 1, code };
    },
  };
}

/** `code`: why it was not all of it. */
function writeAll(descriptor: number, bytes: Buffer): { readonly written: number; readonly code?: string } {
  let written = 0;
  for (let waits = 0; written < bytes.length; ) {
    try {
      written += writeSync(descriptor, bytes, written);
    } catch (error) {
      const { code = "unknown" } = error as NodeJS.ErrnoException;
      if (code !== "EAGAIN" || waits === FULL_PIPE_WAITS) return { written, code };
      waits += 1;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FULL_PIPE_WAIT_MS);
    }
  }
  return { written };
}
