// The stand-ins at work: one queue each, as the real ones are processes of their own, so that a node that hangs holds up no
// provisioning. They meet in the API server.

import { objectKey } from "../../src/contracts/kubernetes/object.ts";
import type { PersistentVolume, PersistentVolumeClaim } from "../../src/contracts/kubernetes/resources.ts";
import type { KubeClient } from "../../src/platform/kube/client/client.ts";
import { createEventRecorder } from "../../src/platform/kube/events/events.ts";
import { createWorkQueue, type Outcome, type WorkQueue } from "../../src/platform/kube/queue/work-queue.ts";
import { BACK_OFFS } from "../../src/platform/process/async/back-off.ts";
import type { Effects } from "../../src/platform/process/effects/effects.ts";
import type { Logger } from "../../src/platform/process/log.ts";
import type { Stoppable } from "../../src/platform/process/shutdown.ts";
import { type ClaimCaches, createClaimCaches } from "./claim-caches.ts";
import type { StandaloneConfig } from "./config.ts";
import { createControllerPort, createNodePort } from "./csi-client.ts";
import { createKubelet } from "./kubelet.ts";
import { provisionClaim } from "./provisioner.ts";
import { reclaimVolume } from "./reclaimer.ts";
import { resizeClaim } from "./resizer.ts";
import { volumeNameOf } from "./volume-request.ts";

export type StandInSettings = Pick<
  StandaloneConfig,
  "nodeName" | "operatorSocket" | "agentSocket" | "kubeletDirectory"
>;

/** As csi-provisioner has it where nothing else is said (--worker-threads); kubelet mounts as many at once as it is asked to. */
const CONCURRENCY = 100;

/** The cluster must be bootstrapped. Stop the parts in reverse order. */
export async function startStandIns(
  client: KubeClient,
  settings: StandInSettings,
  effects: Effects,
  log: Logger,
): Promise<readonly Stoppable[]> {
  const { nodeName, kubeletDirectory } = settings;
  const events = createEventRecorder({ client, component: "tidemark-standalone", nowMs: () => Date.now(), log });
  const caches = createClaimCaches(client, log);
  const controller = createControllerPort(settings.operatorSocket, effects);
  const node = createNodePort(settings.agentSocket, effects);
  const kubelet = createKubelet({ client, caches, node, events, effects, kubeletDirectory });
  const queue = (name: string, run: (key: string) => Promise<Outcome>): WorkQueue =>
    createWorkQueue({ name, concurrency: CONCURRENCY, run, log, backOff: BACK_OFFS.peer });
  const provisioning = { client, caches, controller, events, nodeName };
  const resizing = { client, caches, controller, node, events, kubeletDirectory };
  const answered = { controller: false, node: false };
  // As the sidecars, and kubelet with a driver that has not registered: nothing is called, and no Event says that it failed, before the
  // socket has answered once. Everything is checked again then.
  const once =
    (port: keyof typeof answered, run: (key: string) => Promise<Outcome>) =>
    async (key: string): Promise<Outcome> =>
      answered[port] ? run(key) : "done";
  const byClaim = [
    queue(
      "provisioner",
      once("controller", (key) => provisionClaim(provisioning, key)),
    ),
    queue(
      "resizer",
      once("controller", (key) => resizeClaim(resizing, key)),
    ),
    queue(
      "kubelet",
      once("node", (key) => kubelet.reconcile(key)),
    ),
  ];
  const reclaimer = queue(
    "reclaimer",
    once("controller", (name) => reclaimVolume(provisioning, name)),
  );

  caches.start();
  await caches.synced;
  const addAll = feedQueues(caches, byClaim, reclaimer);
  controller.onConnect(() => {
    answered.controller = true;
    addAll();
  });
  node.onConnect(() => {
    answered.node = true;
    kubelet.forget();
    addAll();
  });
  const queues = [...byClaim, reclaimer];
  return [
    { name: "CSI clients", stop: () => [controller, node].forEach((port) => port.close()) },
    { name: "events", stop: () => events.flush() },
    { name: "caches", stop: () => caches.stop() },
    { name: "queues", stop: async () => void (await Promise.all(queues.map((one) => one.stop()))) },
  ];
}

/** A claim is checked when it, its volume or any class changes; a volume also when its claim goes. Returns what checks everything. */
function feedQueues(caches: ClaimCaches, byClaim: readonly WorkQueue[], reclaimer: WorkQueue): () => void {
  const addClaim = (key: string): void => {
    for (const queue of byClaim) queue.add(key);
  };
  const claimChanged = ({ metadata }: PersistentVolumeClaim): void => addClaim(objectKey(metadata));
  caches.claims.subscribe({
    added: claimChanged,
    updated: claimChanged,
    deleted: (claim) => reclaimer.add(volumeNameOf(claim)),
  });
  const volumeChanged = ({ metadata, spec }: PersistentVolume): void => {
    reclaimer.add(metadata.name);
    const { namespace, name } = spec.claimRef ?? {};
    if (namespace !== undefined && name !== undefined) addClaim(objectKey({ namespace, name }));
  };
  caches.volumes.subscribe({ added: volumeChanged, updated: volumeChanged });
  const addClaims = (): void => {
    for (const claim of caches.claims.store.list()) claimChanged(claim);
  };
  caches.classes.subscribe({ added: addClaims, updated: addClaims });
  return () => {
    addClaims();
    for (const volume of caches.volumes.store.list()) volumeChanged(volume);
  };
}
