// What the driver was asked, and how long each answer took: one JSON line a call, of all parts in one file, so that a benchmark
// can take the driver's own time out of its own. Secrets and contexts are never in it.
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { status } from "@grpc/grpc-js";
import type { Call } from "./faults.ts";
import type { Fault } from "./switches.ts";

export interface LoggedRpc extends Call {
  /** When the call came in, as a Unix time. */
  readonly startMs: number;
  /** A fault's delay included. */
  readonly durationMs: number;
  /** What the work ended with, whether or not the reply was lost. */
  readonly code: keyof typeof status;
  /** CreateVolume's name of the volume. */
  readonly name?: string | undefined;
  readonly message?: string | undefined;
  readonly fault?: Fault | undefined;
}

export function logRpc(directory: string, rpc: LoggedRpc): void {
  appendFileSync(logPath(directory), `${JSON.stringify(rpc)}\n`);
}

/** In the order of their ends. */
export function readRpcLog(directory: string): LoggedRpc[] {
  const path = logPath(directory);
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, "utf8").split("\n").slice(0, -1);
  return lines.map((line) => JSON.parse(line) as LoggedRpc);
}

function logPath(directory: string): string {
  return join(directory, "rpcs.jsonl");
}
