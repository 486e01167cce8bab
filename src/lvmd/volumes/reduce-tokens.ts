// What became of each reduction, by its caller's token: written before and after LVM makes a volume smaller, and kept across restarts,
// so that a reduction that arrives late or twice does nothing.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { REFUSAL_CODES } from "../../csi/refusal.ts";
import type { Clock } from "../../process/clock.ts";
import type { FilePort } from "../../process/file-port.ts";

export interface ReduceRequest {
  /** Of LVM. */
  readonly volumeUUID: string;
  readonly fromBytes: number;
  readonly toBytes: number;
  readonly token: string;
}

const bytes = z.int().min(0);
const reduceEnd = z.discriminatedUnion("state", [
  /** It may have been carried out or not: the size tells. */
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
export class ReduceTokenError extends Error {
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
const KEPT_MS = 30 * 24 * 3_600_000;

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
      if (end.state === "Begun" || clock.nowMs() - atMs < KEPT_MS) continue;
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
