// One operation at a time per volume. What makes room for others (extend, unstage) first stops a running shrink, so that it waits no longer
// than a cancel takes. The queue knows nothing of what the operations do.
import { createKeyedQueue, type KeyedQueue } from "../../platform/process/async/keyed-queue.ts";

export interface VolumeQueue extends Pick<KeyedQueue, "run"> {
  /** As run; `operation` gets a signal that a preempting operation aborts. */
  runPreemptible<T>(handle: string, signal: AbortSignal, operation: (signal: AbortSignal) => Promise<T>): Promise<T>;
  /** As run, after telling a running or waiting preemptible operation to stop. */
  runPreempting<T>(handle: string, operation: () => Promise<T>): Promise<T>;
}

/** What people read of a wait that was given up. */
const PREEMPTED = "another operation on the volume goes first";

export function createVolumeQueue(): VolumeQueue {
  const { run } = createKeyedQueue();
  // A shrink may wait behind a trim: both give way.
  const preemptible = new Map<string, Set<AbortController>>();
  const preemptibleOf = (handle: string): Set<AbortController> => {
    const present = preemptible.get(handle) ?? new Set();
    preemptible.set(handle, present);
    return present;
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
      for (const controller of preemptible.get(handle) ?? []) controller.abort(PREEMPTED);
      return run(handle, operation);
    },
  };
}
