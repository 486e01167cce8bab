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
  // A shrink may wait behind a trim: both give way.
  const preemptible = new Map<string, Set<AbortController>>();
  const preemptibleOf = (handle: string): Set<AbortController> => {
    const present = preemptible.get(handle) ?? new Set();
    preemptible.set(handle, present);
    return present;
  };
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
      const present = preemptibleOf(handle).add(controller);
      return run(handle, () => operation(AbortSignal.any([signal, controller.signal]))).finally(() => {
        present.delete(controller);
        if (present.size === 0) preemptible.delete(handle);
      });
    },
    runPreempting: (handle, operation) => {
      const reason = new Error("another operation on the volume goes first");
      for (const controller of preemptible.get(handle) ?? []) controller.abort(reason);
      return run(handle, operation);
    },
  };
}
