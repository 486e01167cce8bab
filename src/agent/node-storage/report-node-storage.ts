// What the NodeStorage of this node is made of, and who says when it has changed: lvmd its classes, the API server its CSINode, a minute's
// end the work of its disks. Only wiring.

import { createReflector } from "../../kube/cache/reflector.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { CSI_NODES } from "../../kube/resources.ts";
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import type { DeviceClasses } from "../lvmd-client/follow-classes.ts";
import type { Storage } from "../storage/storage.ts";
import type { VolumeStates } from "../volumes/volume-state.ts";
import { startDiskUtilization } from "./disk-utilization.ts";
import { startNodeStorageReporter } from "./node-storage-reporter.ts";

export interface NodeStorageSources {
  readonly nodeName: string;
  readonly client: KubeClient;
  readonly storage: Pick<Storage, "freeBytes">;
  /** Undefined: the node has no lvmd. */
  readonly classes: DeviceClasses | undefined;
  readonly states: VolumeStates;
  readonly clock: Clock;
  readonly log: Logger;
}

export function reportNodeStorage(sources: NodeStorageSources): { stop(): Promise<void> } {
  const { nodeName, client, classes, states, clock, log } = sources;
  const select = { fieldSelector: `metadata.name=${nodeName}` };
  const csiNodes = createReflector({ client, resource: CSI_NODES, select, log });
  const changed = (): void => reporter.changed();
  const utilization = startDiskUtilization(states, clock, changed);
  const reporter = startNodeStorageReporter({
    ...sources,
    classes: () => classes?.list(),
    csiNode: () => csiNodes.store.get(nodeName),
    ioUtilizationRatio: utilization.ratio,
  });
  classes?.subscribe(changed);
  csiNodes.subscribe({ added: changed, updated: changed, deleted: changed });
  csiNodes.start();
  return {
    stop: async () => {
      utilization.stop();
      await Promise.all([csiNodes.stop(), reporter.stop()]);
    },
  };
}
