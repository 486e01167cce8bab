// Reductions by their callers' tokens: what became of each, and those under way. What became of one is written before and after LVM makes
// a volume smaller and survives restarts, so that a late or repeated reduction does nothing.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { REFUSAL_CODES, type Refusal } from "../../../contracts/csi/refusal.ts";
import type { Clock } from "../../../platform/process/clock.ts";
import type { FilePort } from "../../../platform/process/effects/file-port.ts";

export interface ReduceRequest {
  /** Of LVM. */
  readonly volumeUUID: string;
  readonly fromBytes: number;
  readonly toBytes: number;
  readonly token: string;
}

const bytes = z.int().min(0);
const reduceEnd = z.discriminatedUnion("state", [
  /** It may have been carried out or not: the size shows it. */
  z.object({ state: z.literal("Begun"), targetBytes: bytes }),
  z.object({ state: z.literal("Reduced"), sizeBytes: bytes }),
  z.object({ state: z.literal("Refused"), code: z.enum(REFUSAL_CODES), message: z.string() }),
  z.object({ state: z.literal("Burnt") }),
]);
export type ReduceEnd = z.infer<typeof reduceEnd>;

/** A burnt token may never have been seen with a request. */
const reduceRecord = z.object({
  token: z.string(),
  volumeUUID: z.string().optional(),
  fromBytes: bytes.optional(),
  toBytes: bytes.optional(),
  end: reduceEnd,
  atMs: z.number(),
});
export type ReduceRecord = z.infer<typeof reduceRecord>;

/** A record of a token cannot be understood; the message names it. */
class ReduceTokenError extends Error {
  override name = "ReduceTokenError";
}

export interface ReduceTokens {
  get(token: string): ReduceRecord | undefined;
  /** A reduction of this volume of which it is not known whether it was carried out. */
  openOf(volumeUUID: string): ReduceRecord | undefined;
  open(): ReduceRecord[];
  begin(request: ReduceRequest, targetBytes: number): Promise<void>;
  end(request: ReduceRequest, end: ReduceEnd): Promise<ReduceEnd>;
  burn(token: string): Promise<void>;
}

function readRecord(path: string): ReduceRecord {
  const text = readFileSync(path, "utf8");
  try {
    return reduceRecord.parse(JSON.parse(text));
  } catch (error) {
    throw new ReduceTokenError(
      `the record ${path} cannot be understood, so a reduction could be carried out twice; restore it`,
      { cause: error },
    );
  }
}

/** A token may be "..", a file's name not. */
const fileOf = (token: string): string => `token-${token}.json`;
const RETENTION_MS = 30 * 24 * 3_600_000;

/** Ends that are older than 30 days are forgotten; what has no end never is. Throws ReduceTokenError where one cannot be read. */
export function loadReduceTokens(directory: string, files: FilePort, clock: Clock): ReduceTokens {
  const records = new Map<string, ReduceRecord>();
  for (const name of readdirSync(directory)) {
    if (!/^token-.*\.json$/.test(name)) continue;
    const record = readRecord(join(directory, name));
    records.set(record.token, record);
  }
  const open = (): ReduceRecord[] => [...records.values()].filter(({ end }) => end.state === "Begun");
  const pathOf = (token: string): string => join(directory, fileOf(token));
  const forgetOld = async (): Promise<void> => {
    for (const { token, end, atMs } of records.values()) {
      if (end.state === "Begun" || clock.nowMs() - atMs < RETENTION_MS) continue;
      records.delete(token);
      await files.remove("lvmd-reduce/forget", pathOf(token));
    }
  };
  const textOf = (record: ReduceRecord): string => `${JSON.stringify(record, null, 2)}\n`;
  return {
    get: (token) => records.get(token),
    open,
    openOf: (volumeUUID) => open().find((record) => record.volumeUUID === volumeUUID),
    begin: async (request, targetBytes) => {
      await forgetOld();
      const record: ReduceRecord = { ...request, end: { state: "Begun", targetBytes }, atMs: clock.nowMs() };
      await files.writeWhole("lvmd-reduce/record-begin", pathOf(request.token), textOf(record));
      records.set(request.token, record);
    },
    end: async (request, end) => {
      const record: ReduceRecord = { ...request, end, atMs: clock.nowMs() };
      await files.writeWhole("lvmd-reduce/record-end", pathOf(request.token), textOf(record));
      records.set(request.token, record);
      return end;
    },
    burn: async (token) => {
      const record: ReduceRecord = { ...records.get(token), token, end: { state: "Burnt" }, atMs: clock.nowMs() };
      await files.writeWhole("lvmd-reduce/burn", pathOf(token), textOf(record));
      records.set(token, record);
    },
  };
}

// The reductions under way in this lvmd, from their call to their end. Each can be stopped: before its next piece is cleared, and before
// LVM is asked. Those of a former lvmd are not here.

/** Why one is to stop: its token was cancelled, or its volume is to be used for something else. */
export type Stop = { readonly kind: "Cancelled" } | { readonly kind: "Preempted"; readonly refusal: Refusal };

export interface ReductionUnderWay {
  /** Undefined: it may go on. */
  stopped(): Stop | undefined;
}

export interface ReductionsUnderWay {
  /** One at a time for each token: the caller sees to that. */
  run<T>(request: ReduceRequest, work: (reduction: ReductionUnderWay) => Promise<T>): Promise<T>;
  /** Returns at once; does nothing for an unknown token. */
  cancel(token: string): void;
  isReducing(volumeUUID: string): boolean;
  /** Resolves when all of this volume have ended, one way or the other. */
  preempt(volumeUUID: string, refusal: Refusal): Promise<void>;
}

interface Running {
  readonly request: ReduceRequest;
  ended: Promise<unknown>;
  stop: Stop | undefined;
}

export function createReductionsUnderWay(): ReductionsUnderWay {
  const all = new Set<Running>();
  const of = (volumeUUID: string): Running[] => [...all].filter(({ request }) => request.volumeUUID === volumeUUID);
  return {
    run: (request, work) => {
      const running: Running = { request, ended: Promise.resolve(), stop: undefined };
      all.add(running);
      const end = work({ stopped: () => running.stop }).finally(() => all.delete(running));
      running.ended = end.catch(() => undefined);
      return end;
    },
    cancel: (token) => {
      for (const running of all) if (running.request.token === token) running.stop = { kind: "Cancelled" };
    },
    isReducing: (volumeUUID) => of(volumeUUID).length > 0,
    preempt: async (volumeUUID, refusal) => {
      const running = of(volumeUUID);
      for (const one of running) one.stop ??= { kind: "Preempted", refusal };
      await Promise.all(running.map(({ ended }) => ended));
    },
  };
}
