// A volume's record, on its way to the node's disk: nothing begins on a volume whose record cannot be written, and whoever looks
// at the volume sees why. What could not be written is written again with the volume's next turn.
import type { Durability } from "../../process/file-port.ts";
import type { NodeRecords } from "./node-records.ts";
import type { VolumeState } from "./volume-state.ts";

/** The node's own disk has failed; the message says what to do there. */
class RecordError extends Error {
  override name = "RecordError";
}

/** Writes `state.record` as it is now. Throws RecordError, and says so in `state.recordProblem` until it can be written. */
export async function saveRecord(
  records: Pick<NodeRecords, "write">,
  state: VolumeState,
  durability: Durability,
): Promise<void> {
  const { record } = state;
  try {
    await records.write(record, durability);
    state.recordProblem = undefined;
  } catch (error) {
    const failure = new RecordError(messageOf(record.handle, error as NodeJS.ErrnoException), { cause: error });
    state.recordProblem = failure.message;
    throw failure;
  }
}

const REMEDIES: Readonly<Record<string, string>> = {
  ENOSPC: "free space or inodes (df, df -i) on that filesystem of the node",
  EDQUOT: "raise the quota of that directory, or free space in it",
  EROFS: "that filesystem of the node is read-only: look at the node's kernel log, repair it and mount it writable",
  ENODEV: "mount that disk of the node again",
  EIO: "that disk of the node has failed: look at the node's kernel log and replace it",
};
const OTHER_REMEDY = "look at the node's kernel log";

function messageOf(handle: string, { code, message }: NodeJS.ErrnoException): string {
  const remedy = REMEDIES[code ?? ""] ?? OTHER_REMEDY;
  return `no decided operation begins on volume ${handle}, since its record on the node cannot be written (${message}); ${remedy}. It is tried again`;
}
