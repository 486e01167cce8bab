// The facts as CEL sees them: volume, node, now and the windows. One scope per volume and decision, shared by all rules, since
// variables are remembered by it. Values are read when an expression asks, so most are never computed.
import type { NodeScope, Scope, VolumeScope } from "../cel/scope.ts";
import type { Facts } from "../facts/facts.ts";
import type { MissingHistory } from "../facts/usage-history.ts";

const UNKNOWN_NODE: NodeScope = { name: "", freeBytes: undefined, ioUtilizationRatio: undefined };

/** The scope of one decision. */
export function scopeOf(facts: Facts): Scope {
  return new FactsScope(facts);
}

class FactsScope implements Scope {
  readonly volume: VolumeScope;
  readonly #facts: Facts;

  constructor(facts: Facts) {
    this.#facts = facts;
    this.volume = new FactsVolume(facts);
  }

  get node(): NodeScope {
    return this.#facts.node ?? UNKNOWN_NODE;
  }

  get nowMs(): number {
    return this.#facts.nowMs;
  }

  usedBytesMax(windowMs: number): number | MissingHistory {
    return this.#facts.filesystem.history.maxUsedBytes(windowMs, this.#facts.monotonicMs);
  }
}

class FactsVolume implements VolumeScope {
  readonly #facts: Facts;

  constructor(facts: Facts) {
    this.#facts = facts;
  }

  get namespace(): string {
    return this.#facts.claim.namespace;
  }
  get name(): string {
    return this.#facts.claim.name;
  }
  get labels(): Readonly<Record<string, string>> {
    return this.#facts.claim.labels;
  }
  get annotations(): Readonly<Record<string, string>> {
    return this.#facts.claim.annotations;
  }
  get storageClassName(): string {
    return this.#facts.claim.storageClassName;
  }
  get backend(): string {
    return this.#facts.claim.backend;
  }
  get fsType(): string {
    return this.#facts.claim.fsType;
  }
  get nominalBytes(): number {
    return this.#facts.claim.nominalBytes;
  }
  get capacityBytes(): number | undefined {
    return this.#facts.filesystem.reading?.capacityBytes;
  }
  get usedBytes(): number | undefined {
    return this.#facts.filesystem.reading?.usedBytes;
  }
  get availableBytes(): number | undefined {
    return this.#facts.filesystem.reading?.availableBytes;
  }
  get usedRatio(): number | undefined {
    const reading = this.#facts.filesystem.reading;
    return reading === undefined ? undefined : reading.usedBytes / reading.capacityBytes;
  }
  get inodesTotal(): number | undefined {
    return this.#facts.filesystem.reading?.inodesTotal;
  }
  get inodesUsed(): number | undefined {
    return this.#facts.filesystem.reading?.inodesUsed;
  }
  get inodesUsedRatio(): number | undefined {
    const reading = this.#facts.filesystem.reading;
    if (reading?.inodesTotal === 0) return 0;
    if (reading?.inodesTotal === undefined || reading.inodesUsed === undefined) return undefined;
    return reading.inodesUsed / reading.inodesTotal;
  }
  get growthBytesPerSecond(): number | undefined {
    return this.#facts.filesystem.growthBytesPerSecond;
  }
  get secondsToFull(): number | undefined {
    const { reading, growthBytesPerSecond } = this.#facts.filesystem;
    if (reading === undefined || growthBytesPerSecond === undefined) return undefined;
    return growthBytesPerSecond > 0 ? reading.availableBytes / growthBytesPerSecond : Number.POSITIVE_INFINITY;
  }
  get ageSeconds(): number {
    return Math.max(0, this.#facts.nowMs - this.#facts.claim.createdAtMs) / 1000;
  }
}
