// What goes to and fro between this node and the API server: layouts in; status and Events out. Only wiring.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { createReflector } from "../../platform/kube/cache/reflector.ts";
import type { ReadableStore } from "../../platform/kube/cache/store.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { createApplier, createOwnWrites } from "../../platform/kube/client/writes.ts";
import { createEventRecorder } from "../../platform/kube/events/events.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { Stoppable } from "../../platform/process/shutdown.ts";
import { isClaimLayout, ownLayouts } from "../ordinary-claims/find-claims.ts";
import { createStatusReporter, type StatusReporter } from "../report/status-reporter.ts";
import type { VolumesByHandle } from "./node-volume.ts";

export interface LayoutExchange {
  /** Of our own volumes. */
  readonly layouts: ReadableStore<FilesystemLayout>;
  /** This node's ordinary claims. */
  claimLayouts(): FilesystemLayout[];
  /** True once the API server has been heard. */
  layoutsKnown(): boolean;
  /** Resolves then. */
  readonly layoutsSynced: Promise<void>;
  readonly reporter: StatusReporter;
  /** Calls back with the name of each layout that is there, and of each that changes or goes; and when an ordinary claim's does here. */
  follow(changed: (handle: string) => void, claimsChanged: () => void): void;
  readonly stoppables: readonly Stoppable[];
}

export interface LayoutExchangeParts {
  readonly nodeName: string;
  readonly volumes: VolumesByHandle;
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
}

export function createLayoutExchange({ nodeName, volumes, client, clock, log }: LayoutExchangeParts): LayoutExchange {
  const indexes = { claimsOfNode: (layout: FilesystemLayout) => (isClaimLayout(layout) ? [nodeOf(layout)] : []) };
  const reflector = createReflector({ client, resource: FILESYSTEM_LAYOUTS, log, indexes });
  const layouts = ownLayouts(reflector.store);
  const events = createEventRecorder({ client, component: "tidemark-agent", nowMs: clock.nowMs, log });
  const applier = createApplier(client);
  const ownWrites = createOwnWrites<FilesystemLayout>(clock);
  return {
    layouts,
    claimLayouts: () => [...reflector.store.byIndex("claimsOfNode", nodeName)],
    layoutsKnown: () => reflector.lastContactMs() !== undefined,
    layoutsSynced: reflector.synced,
    reporter: createStatusReporter({ nodeName, volumes, layouts, client, applier, ownWrites, events, clock, log }),
    follow: (changed, claimsChanged) => {
      const tell = (layout: FilesystemLayout, before?: FilesystemLayout): void => {
        if (!isClaimLayout(layout)) changed(layout.metadata.name);
        else if (concerns(nodeName, layout, before)) claimsChanged();
      };
      reflector.subscribe({ added: (layout) => tell(layout), updated: tell, deleted: (layout) => tell(layout) });
      reflector.start();
    },
    stoppables: [
      { name: "events", stop: () => events.flush() },
      { name: "reflector", stop: () => reflector.stop() },
    ],
  };
}

function nodeOf({ spec }: FilesystemLayout): string {
  return spec.nodeName ?? "";
}

/** Every agent hears of every claim of the cluster; most are other nodes'. */
function concerns(nodeName: string, layout: FilesystemLayout, before: FilesystemLayout | undefined): boolean {
  if (before?.metadata.generation === layout.metadata.generation) return false;
  return nodeOf(layout) === nodeName || (before !== undefined && nodeOf(before) === nodeName);
}
