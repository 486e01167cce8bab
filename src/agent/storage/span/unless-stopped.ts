// Waiting for a member's driver until somebody else needs the filesystem more. The call itself goes on: its answer is nobody's then,
// and the next call about that member waits for it.
import { StorageError } from "../storage.ts";

/** Throws WaitingForMember once the signal is fired. */
export function unlessStopped<T>(call: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return call;
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      reject(
        new StorageError("WaitingForMember", `the driver of a member is not waited for: ${String(signal.reason)}`),
      );
    };
    call.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}
