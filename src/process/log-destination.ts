// Where log lines go: a descriptor that is written to at once. What it does not take is lost, counted and reported later: a full disk under the
// log, or a reader that is gone, ends no process.
import { writeSync } from "node:fs";

export interface LogDestination {
  write(line: string): void;
}

/** A pipe that is full for a moment is waited for, and holds the process up for no longer than this. */
const FULL_PIPE_WAIT_MS = 10;
const FULL_PIPE_WAITS = 10;
const LINE_END = "\n".charCodeAt(0);

/** `lostLine`: the line, with its end, that says how many are missing before it, and by which error code. */
export function createLogDestination(
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
