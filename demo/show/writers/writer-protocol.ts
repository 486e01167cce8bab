// What the writer process and the demo exchange: one JSON object a line, reports on its stdout, commands on its stdin. The commands are
// phases of the workload; the writer knows nothing of Tidemark.
import * as z from "zod";

const report = z.discriminatedUnion("kind", [
  /** A whole file is written: its checksum lives here, outside the filesystem. */
  z.object({ kind: z.literal("file"), name: z.string(), bytes: z.number(), sha256: z.string() }),
  z.object({ kind: z.literal("deleted"), name: z.string() }),
  z.object({
    kind: z.literal("progress"),
    writtenBytes: z.number(),
    liveBytes: z.number(),
    /** The longest that one write has taken so far. */
    maxWriteStallMs: z.number(),
  }),
  /** One write failed: its code (ENOSPC, EROFS, EIO, …); the unfinished file is given up. */
  z.object({ kind: z.literal("error"), atMs: z.number(), code: z.string(), message: z.string() }),
]);
export type WriterReport = z.infer<typeof report>;

const command = z.union([
  z.strictObject({ deleteOldest: z.number() }),
  z.strictObject({ rate: z.number() }),
  z.strictObject({ stop: z.literal(true) }),
]);
/** deleteOldest: bytes; rate: bytes per second; stop: give up the file at hand and end. */
export type WriterCommand = z.infer<typeof command>;

/** Throws on a line that is not a report. */
export function parseReport(line: string): WriterReport {
  return report.parse(JSON.parse(line));
}

/** Throws on a line that is not a command. */
export function parseCommand(line: string): WriterCommand {
  return command.parse(JSON.parse(line));
}
