// A thread of the mount reader: answers one question at a time about mounted filesystems. One that does not answer holds it up for as long
// as it takes; the main thread then leaves it behind. It decides nothing and writes nothing.
import { parentPort, workerData } from "node:worker_threads";
import { inPlace, type ThreadData } from "../../../platform/process/threads/abandonable-thread.ts";
import { type AskedMount, type FromMountThread, MOUNT_PLACE, type ToMountThread } from "../filesystem/mount-reader.ts";
import { openReader, type Reader } from "./read-filesystem.ts";

type Question = Exclude<ToMountThread, { readonly type: "close" }>;

/** Closed by Node when this thread ends, all that are left. */
const readers = new Map<number, Reader>();

function answer({ type, mount }: Question): FromMountThread {
  try {
    const reader = readerOf(mount);
    const reading = reader.read();
    return type === "open"
      ? { type: "opened", deviceNumber: reader.deviceNumber, reading }
      : { type: "reading", reading };
  } catch (error) {
    // No close follows an open that failed.
    if (type === "open") close(mount.number);
    return { type: "failed", message: error instanceof Error ? error.message : String(error) };
  }
}

/** Another thread may have opened it first: what is there now has to be the same filesystem. */
function readerOf(mount: AskedMount): Reader {
  const present = readers.get(mount.number);
  if (present !== undefined) return present;
  const reader = openReader(mount);
  if (mount.deviceNumber !== undefined && mount.deviceNumber !== reader.deviceNumber) {
    reader.close();
    throw new Error(`${mount.mountPath} is no longer mounted`);
  }
  readers.set(mount.number, reader);
  return reader;
}

function close(number: number): void {
  readers.get(number)?.close();
  readers.delete(number);
}

const { cells } = workerData as ThreadData;
parentPort?.on("message", (message: ToMountThread) => {
  if (message.type === "close") close(message.number);
  else parentPort?.postMessage(inPlace(cells, MOUNT_PLACE, () => answer(message)));
});
