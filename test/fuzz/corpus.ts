// What mutations go on from: the seeds, inputs that were accepted, and those that were refused in a way that none was before.
import { SIZE_LIMIT_BYTES } from "./mutate.ts";
import type { Random } from "./random.ts";

/** Of either kind. */
const LIMIT = 256;
/** A small input is taken in many times as fast, and a change of it matters more: a larger seed is gone on from once in so many times. */
const SMALL_BYTES = 2048;
const LARGE_ONE_IN = 64;

export class Corpus {
  readonly #seeds: readonly Buffer[];
  readonly #smallSeeds: readonly Buffer[];
  readonly #random: Random;
  readonly #accepted: Buffer[] = [];
  readonly #refused: Buffer[] = [];
  readonly #answers = new Set<string>();

  constructor(seeds: readonly Buffer[], random: Random) {
    this.#seeds = seeds;
    this.#smallSeeds = seeds.filter(({ length }) => length <= SMALL_BYTES);
    this.#random = random;
  }

  /** Different ones. */
  get answers(): number {
    return this.#answers.size;
  }

  add(input: Buffer, { isAccepted, answer }: { readonly isAccepted: boolean; readonly answer: string }): void {
    const isNew = !this.#answers.has(answer);
    if (isNew) this.#answers.add(answer);
    if (input.length > SIZE_LIMIT_BYTES || !(isNew || isAccepted)) return;
    const list = isAccepted ? this.#accepted : this.#refused;
    if (list.length < LIMIT) list.push(input);
    else if (isAccepted) list[this.#random.below(LIMIT)] = input;
  }

  pick(): Buffer {
    const share = this.#random.below(4);
    const found = share === 0 ? this.#refused : share === 1 ? this.#accepted : [];
    if (found.length === 0) return this.#pickSeed();
    const [one, other] = [this.#random.pick(found), this.#random.pick(found)];
    return one.length <= other.length ? one : other;
  }

  #pickSeed(): Buffer {
    const fromAll = this.#smallSeeds.length === 0 || this.#random.below(LARGE_ONE_IN) === 0;
    return this.#random.pick(fromAll ? this.#seeds : this.#smallSeeds);
  }
}
