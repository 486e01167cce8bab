// A real logger whose lines can be read back.
import { type Logger, pino } from "pino";

export interface LogLine {
  readonly level: number;
  readonly msg: string;
  readonly [field: string]: unknown;
}

export const ERROR_LEVEL = 50;
export const WARN_LEVEL = 40;

export function createRecordingLog(): { log: Logger; lines: LogLine[] } {
  const lines: LogLine[] = [];
  const log = pino({ level: "debug" }, { write: (text: string) => void lines.push(JSON.parse(text) as LogLine) });
  return { log, lines };
}
