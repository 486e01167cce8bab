// What the processes complained about, for the user of a run that failed: their logs go away with the run directory.
import { readFileSync } from "node:fs";
import { logFileOf } from "./processes.ts";

const WARN_LEVEL = 40;
const LINES_LIMIT = 16;
const LINE_LIMIT_CHARS = 1000;

/** The last warnings, errors and unstructured lines of one process' log. */
export function complaintsOf(runDirectory: string, name: string): string[] {
  let text: string;
  try {
    text = readFileSync(logFileOf(runDirectory, name), "utf8");
  } catch {
    return []; // it was never started
  }
  return text
    .split("\n")
    .filter((line) => line !== "" && isComplaint(line))
    .slice(-LINES_LIMIT)
    .map((line) => `${name}: ${line.slice(0, LINE_LIMIT_CHARS)}`);
}

function isComplaint(line: string): boolean {
  try {
    return (JSON.parse(line) as { level?: number }).level !== undefined
      ? (JSON.parse(line) as { level: number }).level >= WARN_LEVEL
      : true;
  } catch {
    return true;
  }
}
