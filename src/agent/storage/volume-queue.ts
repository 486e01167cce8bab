// One operation at a time per volume. What makes room for others (extend, unstage) first stops a running shrink, so that nobody
// waits longer than a cancel takes. It knows nothing of what the operations do.

export interface VolumeQueue {
  /** After all that was queued before for this volume. */
  run<T>(handle: string, operation: () => Promise<T>): Promise<T>;
  /** As run; `operation` gets a signal that a preempting operation aborts. */
  runPreemptible<T>(handle: string, signal: AbortSignal, operation: (signal: AbortSignal) => Promise<T>): Promise<T>;
  /** As run, after telling a running or waiting preemptible operation to stop. */
  runPreempting<T>(handle: string, operation: () => Promise<T>): Promise<T>;
}

export function createVolumeQueue(): VolumeQueue {
  const tails = new Map<string, Promise<unknown>>();
  const preemptible = new Map<string, AbortController>();
  const run = <T>(handle: string, operation: () => Promise<T>): Promise<T> => {
    const result = (tails.get(handle) ?? Promise.resolve()).then(operation);
    const tail = result.catch(() => undefined).finally(() => tails.get(handle) === tail && tails.delete(handle));
    tails.set(handle, tail);
    return result;
  };
  return {
    run,
    runPreemptible: (handle, signal, operation) => {
      const controller = new AbortController();
      preemptible.set(handle, controller);
      return run(handle, () => operation(AbortSignal.any([signal, controller.signal]))).finally(() => {
        if (preemptible.get(handle) === controller) preemptible.delete(handle);
      });
    },
    runPreempting: (handle, operation) => {
      preemptible.get(handle)?.abort(new Error("another operation on the volume goes first"));
      return run(handle, operation);
    },
  };
}
