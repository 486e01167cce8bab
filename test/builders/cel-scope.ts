// Scopes for expressions: a half-full 16 GiB volume unless told otherwise.
import type { NodeScope, Scope, VolumeScope } from "../../src/policy-engine/cel/scope.ts";

const GIB = 1024 ** 3;

interface Changes {
  volume?: Partial<VolumeScope>;
  node?: Partial<NodeScope>;
  nowMs?: number;
  usedBytesMax?: Scope["usedBytesMax"];
}

export function aScope(changes: Changes = {}): Scope {
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
    growthBytesPerSecond: 1024,
    secondsToFull: 8 * 1024 ** 2,
    ageSeconds: 86_400,
    ...changes.volume,
  };
  return {
    volume,
    node: { name: "node-1", freeBytes: 100 * GIB, ioUtilizationRatio: 0.1, ...changes.node },
    nowMs: changes.nowMs ?? Date.UTC(2026, 0, 31, 12, 30, 15, 250),
    usedBytesMax: changes.usedBytesMax ?? (() => 12 * GIB),
  };
}
