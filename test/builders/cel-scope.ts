// Scopes for expressions: a half-full 16 GiB volume unless told otherwise.
import type { NodeScope, Scope, VolumeScope } from "../../src/policy-engine/cel/term.ts";

const GIB = 1024 ** 3;

/** One of them; the same over any time. Undefined: it is not known. */
interface Growth {
  growthBytesPerSecond?: number | undefined;
  secondsToFull?: number | undefined;
}

interface Changes {
  volume?: Partial<VolumeScope> & Growth;
  node?: Partial<NodeScope>;
  nowMs?: number;
  usedBytesMax?: Scope["usedBytesMax"];
}

export function aScope(changes: Changes = {}): Scope {
  const { growthBytesPerSecond: growth, secondsToFull, ...facts } = changes.volume ?? {};
  const isUnknown = changes.volume !== undefined && "secondsToFull" in changes.volume && secondsToFull === undefined;
  const volume: VolumeScope = {
    namespace: "shop",
    name: "orders",
    labels: { tier: "cache" },
    annotations: {},
    storageClassName: "tidemark-lvm",
    backend: "lvm",
    fsType: "btrfs",
    nominalBytes: 16 * GIB,
    capacityBytes: 16 * GIB,
    usedBytes: 8 * GIB,
    availableBytes: 8 * GIB,
    usedRatio: 0.5,
    inodesTotal: 1_000_000,
    inodesUsed: 250_000,
    inodesUsedRatio: 0.25,
    ageSeconds: 86_400,
    ...facts,
  };
  const growthNow = growth ?? (secondsToFull === undefined ? 1024 : (volume.availableBytes ?? 0) / secondsToFull);
  return {
    volume,
    node: { name: "node-1", freeBytes: 100 * GIB, ioUtilizationRatio: 0.1, ...changes.node },
    nowMs: changes.nowMs ?? Date.UTC(2026, 0, 31, 12, 30, 15, 250),
    usedBytesMax: changes.usedBytesMax ?? (() => 12 * GIB),
    growthBytesPerSecond: () => (isUnknown ? { missing: "nothing was measured" } : growthNow),
  };
}
