// The demo's end of a writer process: starts it, keeps the manifest of what it wrote, hands it its workload's phases.
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { onLines } from "./line-stream.ts";
import { parseReport, type WriterCommand, type WriterReport } from "./writer-protocol.ts";

export interface ManifestEntry {
  readonly bytes: number;
  readonly sha256: string;
}

/** What was written, by file name: stored here, outside the filesystem that is to be verified against it. */
export type Manifest = ReadonlyMap<string, ManifestEntry>;

export interface WriterTotals {
  readonly writtenBytes: number;
  readonly liveBytes: number;
  readonly maxWriteStallMs: number;
}

export interface WriterError {
  readonly atMs: number;
  readonly code: string;
  readonly message: string;
}

export interface Writer {
  readonly manifest: Manifest;
  totals(): WriterTotals;
  errors(): readonly WriterError[];
  /** False once its process has ended, by itself or not. */
  running(): boolean;
  send(command: WriterCommand): void;
  /** Stops it and waits until its process has ended; its totals and manifest are final then. */
  stop(): Promise<void>;
}

const ERRORS_KEPT_LIMIT = 1000;

/** Takes over a started writer with piped stdin and stdout; `onError` hears of each refused write at once. */
export function followWriter(child: ChildProcess, onError: (error: WriterError) => void = () => undefined): Writer {
  const manifest = new Map<string, ManifestEntry>();
  const errors: WriterError[] = [];
  let totals: WriterTotals = { writtenBytes: 0, liveBytes: 0, maxWriteStallMs: 0 };
  let running = true;
  const hear = (report: WriterReport): void => {
    switch (report.kind) {
      case "file":
        manifest.set(report.name, { bytes: report.bytes, sha256: report.sha256 });
        break;
      case "deleted":
        manifest.delete(report.name);
        break;
      case "progress":
        totals = report;
        break;
      case "error":
        if (errors.length < ERRORS_KEPT_LIMIT) errors.push(report);
        onError(report);
        break;
    }
  };
  if (child.stdout === null || child.stdin === null) throw new Error("a writer needs piped stdin and stdout");
  onLines(child.stdout, (line) => hear(parseReport(line)));
  const { stdin } = child;
  stdin.on("error", () => undefined); // it has ended; `running` says so
  const closed = once(child, "close").then(() => {
    running = false;
  });
  const send = (command: WriterCommand): void => {
    if (running) stdin.write(`${JSON.stringify(command)}\n`);
  };
  return {
    manifest,
    totals: () => totals,
    errors: () => errors,
    running: () => running,
    send,
    stop: async () => {
      send({ stop: true });
      await closed;
    },
  };
}
