// One volume of this node, and the owner of its state: what happens to it is dispatched as an event, and everyone reads snapshots. What
// runs on the volume has a signal, which follows the state. Its record goes to the node's disk from here: nothing but an emergency starts
// on a volume whose record cannot be written, and the volume's next turn writes it again.

import { withDetail } from "../../contracts/printable.ts";
import type { Durability } from "../../platform/process/effects/file-port.ts";
import type { NodeRecords } from "./node-records.ts";
import { reduce, type VolumeEvent } from "./volume-events.ts";
import { type CancelCause, Cancellation, type NodeVolumeState } from "./volume-state.ts";

/** One of each at a time. */
const CANCELLABLE = ["running", "trim", "sparePreparation"] as const;
type Cancellable = (typeof CANCELLABLE)[number];

export class NodeVolume {
  #state: NodeVolumeState;
  #ended: Promise<void> = Promise.resolve();
  readonly #controllers = new Map<Cancellable, AbortController>();

  constructor(state: NodeVolumeState) {
    this.#state = state;
  }

  get handle(): string {
    return this.#state.handle;
  }

  /** As it is now. After an await, read it again. */
  get state(): NodeVolumeState {
    return this.#state;
  }

  /** Changes the state at once. */
  dispatch(event: VolumeEvent): void {
    this.#state = reduce(this.#state, event);
    for (const one of CANCELLABLE) this.#followWith(one);
  }

  /** Says when what runs now is cancelled; the reason is a Cancellation. */
  signalOf(running: Cancellable): AbortSignal {
    const controller = this.#controllers.get(running);
    if (controller === undefined) throw new Error(`bug: no ${running} of ${this.handle} has a signal: it does not run`);
    return controller.signal;
  }

  /** All that gives way to the cause is cancelled at once, and ends soon. What was cancelled before keeps its first cause. */
  cancel(cause: CancelCause): void {
    this.dispatch({ type: "CancelRequested", cancellation: new Cancellation(cause) });
  }

  /** Resolves when the operation that runs now has ended: a shrink where it is, an extend at its end. */
  async cancelAndWait(cause: CancelCause): Promise<void> {
    const ended = this.#state.running === undefined ? undefined : this.#ended;
    this.cancel(cause);
    await ended;
  }

  /** Of the operation that has just started: resolves when it has ended and its end is recorded; never rejects. */
  operationEndsWith(ended: Promise<void>): void {
    this.#ended = ended;
  }

  #followWith(one: Cancellable): void {
    const running = this.#state[one];
    if (running === undefined) this.#controllers.delete(one);
    else if (!this.#controllers.has(one)) this.#controllers.set(one, new AbortController());
    if (running?.cancellation !== undefined) this.#controllers.get(one)?.abort(running.cancellation);
  }
}

export type VolumesByHandle = Map<string, NodeVolume>;

/** The node's own disk has failed; the message says what to do there. */
class RecordError extends Error {
  override name = "RecordError";
}

/** Writes the record as it is now. Throws RecordError, and the state says so until it can be written. */
export async function saveRecord(
  records: Pick<NodeRecords, "write">,
  volume: NodeVolume,
  durability: Durability,
): Promise<void> {
  const { record } = volume.state;
  try {
    await records.write(record, durability);
    volume.dispatch({ type: "RecordSaved" });
  } catch (error) {
    const failure = new RecordError(messageOf(record.handle, error as NodeJS.ErrnoException), { cause: error });
    volume.dispatch({ type: "RecordNotSaved", message: failure.message });
    throw failure;
  }
}

const REMEDIES: Readonly<Record<string, string>> = {
  ENOSPC: "free space or inodes (df, df -i) on that filesystem of the node",
  EDQUOT: "raise the quota of that directory, or free space in it",
  EROFS: "repair that filesystem of the node and mount it writable",
  ENODEV: "mount that disk of the node again",
  EIO: "replace the failed disk of the node (see its kernel log)",
};
const OTHER_REMEDY = "look at the node's kernel log";

function messageOf(handle: string, { code, message }: NodeJS.ErrnoException): string {
  const remedy = REMEDIES[code ?? ""] ?? OTHER_REMEDY;
  const what = `${remedy}: the record of volume ${handle} cannot be written (${code ?? "no code"}); retrying`;
  return withDetail(what, message);
}
