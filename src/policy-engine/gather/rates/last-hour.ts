// When something took place within the last hour, in order: read by how many there were since. Times are of a clock that never jumps.

const HOUR_MS = 3_600_000;
/** Fewer are not worth a look at what is over. */
const MANY = 64;

export class LastHour {
  readonly #timesMs: number[] = [];

  /** Nearly always the newest of all. */
  add(atMs: number): void {
    this.#timesMs.splice(this.#after(atMs), 0, atMs);
    // Half of them at once, so that it costs nothing on average.
    const middle = this.#timesMs.length >> 1;
    if (middle >= MANY && (this.#timesMs[middle] ?? atMs) <= atMs - HOUR_MS) this.#timesMs.splice(0, middle + 1);
  }

  /** One that was added. */
  remove(atMs: number): void {
    const index = this.#after(atMs) - 1;
    if (this.#timesMs[index] === atMs) this.#timesMs.splice(index, 1);
  }

  /** When the n-th last one was; undefined: the last hour has fewer. */
  nthLast(n: number, nowMs: number): number | undefined {
    const atMs = this.#timesMs.at(-n);
    return atMs !== undefined && atMs > nowMs - HOUR_MS ? atMs : undefined;
  }

  get latestMs(): number {
    return this.#timesMs.at(-1) ?? Number.NEGATIVE_INFINITY;
  }

  /** The place behind all that are not later. */
  #after(atMs: number): number {
    let [low, high] = [0, this.#timesMs.length];
    if ((this.#timesMs.at(-1) ?? atMs) <= atMs) return high;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#timesMs[middle] ?? atMs) <= atMs) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
