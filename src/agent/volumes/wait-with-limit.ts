// Waiting with an end: what is stuck in the kernel never rejects by itself, and must not take its caller along.
import { StorageError } from "../storage/storage.ts";

/** The result, or StorageError "Hung" after the limit; the work itself goes on, its late result is dropped. */
export function withTimeLimit<T>(work: Promise<T>, limitMs: number, task: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new StorageError("Hung", `${task}: no answer after ${limitMs} ms; see dmesg on the node`)),
      limitMs,
    );
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
