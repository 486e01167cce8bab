// Lines of a text stream, as they arrive. A line that never ends is cut off, so that a broken peer cannot fill our memory.
import type { Readable } from "node:stream";

const LINE_LIMIT_CHARS = 1 << 16;

/** Calls `onLine` for each whole line, without its end. What follows the last line end is dropped. */
export function onLines(stream: Readable, onLine: (line: string) => void): void {
  let rest = "";
  stream.setEncoding("utf8");
  stream.on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = (lines.pop() ?? "").slice(0, LINE_LIMIT_CHARS);
    for (const line of lines) if (line !== "") onLine(line);
  });
}
