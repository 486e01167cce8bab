// What a changed object tells the engine: an operation that ends, a size that changes, a claim that is relabelled each ask for that
// one volume. It decides nothing.
import { claimResizeOf } from "../../api/claim-resize.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { objectKey } from "../../kube/object.ts";
import type { PersistentVolumeClaim } from "../../kube/resources.ts";
import { type Clock, type Instant, instantOf } from "../../process/clock.ts";
import type { Caches } from "../gather/caches.ts";
import type { VolumeRegistry } from "../gather/volume-registry.ts";
import type { Engine } from "./engine.ts";

export interface ChangesFollowed {
  readonly caches: Pick<Caches, "layouts" | "filesystems" | "claims">;
  readonly registry: VolumeRegistry;
  readonly engine: Pick<Engine, "evaluate">;
  readonly clock: Clock;
  readonly onCountChanged: () => void;
  readonly onEpoch: (epochOfAgent: number) => void;
}

export function followChanges(followed: ChangesFollowed): void {
  const { caches, registry } = followed;
  followLayouts(followed);
  caches.filesystems.subscribe({
    added: ({ status }) => {
      if (status?.volumeHandle !== undefined && status.scaling !== undefined)
        registry.recall(status.volumeHandle, status.scaling, instantOf(followed.clock));
    },
  });
  followClaims(followed);
}

function followLayouts({ caches, registry, engine, clock, onCountChanged, onEpoch }: ChangesFollowed): void {
  const seen = (layout: FilesystemLayout): void => {
    onEpoch(layout.status?.epoch ?? 0);
    registry.layoutSeen(layout, instantOf(clock));
    const claim = layout.spec.claimRef && caches.claims.store.get(objectKey(layout.spec.claimRef));
    if (claim !== undefined) claimSeen(registry, claim, layout, instantOf(clock));
  };
  caches.layouts.subscribe({
    added: (layout) => {
      seen(layout);
      onCountChanged();
    },
    updated: (layout) => {
      seen(layout);
      engine.evaluate(layout.metadata.name);
    },
    deleted: (layout) => {
      registry.forget(layout.metadata.name);
      onCountChanged();
    },
  });
}

// A claim that is heard of only after its layout is news as well: growth is told by what it had before.
function followClaims({ caches, registry, engine, clock }: ChangesFollowed): void {
  const seen = (claim: PersistentVolumeClaim): void => {
    for (const layout of caches.layouts.store.byIndex("claim", objectKey(claim.metadata))) {
      claimSeen(registry, claim, layout, instantOf(clock));
      engine.evaluate(layout.metadata.name);
    }
  };
  caches.claims.subscribe({ added: seen, updated: seen });
}

function claimSeen(
  registry: VolumeRegistry,
  claim: PersistentVolumeClaim,
  { metadata, spec }: FilesystemLayout,
  at: Instant,
): void {
  const isIts = spec.backend === "claim" && spec.claimRef?.uid === claim.metadata.uid;
  const capacityBytes = isIts ? claimResizeOf(claim)?.capacityBytes : undefined;
  if (capacityBytes !== undefined) registry.claimSeen(metadata.name, capacityBytes, at);
}
