// Finds pods that wait for a node and were not marked, since the webhook was not there or did not answer when they were
// made. Reports each of them once, while this replica leads. Nothing of a pod is changed: what its scheduler goes by
// can no longer change.

import { objectKey } from "../../contracts/kubernetes/object.ts";
import {
  EVENTS,
  type MutatingWebhookConfiguration,
  type Namespace,
  type PersistentVolumeClaim,
  type Pod,
  type StorageClass,
} from "../../contracts/kubernetes/resources.ts";
import { POD_WEBHOOK } from "../../contracts/names.ts";
import { matchesSelector } from "../../contracts/schema/label-selector.ts";
import type { Reflector } from "../../platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import type { Logger } from "../../platform/process/log.ts";
import { createLedQueue, type Duty } from "../led-queue.ts";
import { missedPlacement } from "./decide-placement.ts";
import { type ClaimSources, claimsOfPod, isClaiming } from "./pod-claims.ts";

export interface MissedPodsHandling {
  readonly client: Pick<KubeClient, "list">;
  readonly sources: ClaimSources;
  /** Those without a node. Index "claim": the keys of the claims that they name. */
  readonly pods: Reflector<Pod>;
  readonly claims: Reflector<PersistentVolumeClaim>;
  readonly storageClasses: Reflector<StorageClass>;
  readonly namespaces: Pick<Reflector<Namespace>, "store">;
  readonly configurations: Pick<Reflector<MutatingWebhookConfiguration>, "store">;
  readonly asking: ReadonlySet<string>;
  readonly ownNamespace: string;
  readonly events: Pick<EventRecorder, "record">;
}

export interface MissedPods extends Duty {
  /** How many wait for a node now that were missed; 0 where this replica does not lead. */
  count(): number;
}

const CONCURRENCY = 4;
const REASON = "WebhookBypassed";

export function claimKeysOf({ metadata, spec }: Pod): string[] {
  return (spec.volumes ?? []).flatMap(({ persistentVolumeClaim }) =>
    persistentVolumeClaim === undefined
      ? []
      : [objectKey({ namespace: metadata.namespace, name: persistentVolumeClaim.claimName })],
  );
}

export function createMissedPods(handling: MissedPodsHandling, synced: Promise<void>, log: Logger): MissedPods {
  const { pods, claims, storageClasses } = handling;
  /** UIDs of pods that were reported, while they wait. */
  const told = new Set<string>();
  const queue = createLedQueue(
    {
      synced,
      keys: () =>
        pods.store
          .list()
          .filter(mayBeMissed)
          .map(({ metadata }) => objectKey(metadata)),
    },
    { name: "missed-pods", concurrency: CONCURRENCY, run: (key) => look(handling, told, key), log },
  );
  const changed = (pod: Pod): void => {
    if (mayBeMissed(pod)) queue.add(objectKey(pod.metadata));
  };
  pods.subscribe({ added: changed, deleted: ({ metadata }) => void told.delete(metadata.uid ?? "") });
  // A claim, or its class, may come after the pod.
  claims.subscribe({
    added: ({ metadata }) => {
      for (const pod of pods.store.byIndex("claim", objectKey(metadata))) changed(pod);
    },
  });
  storageClasses.subscribe({ added: queue.addAll });
  return {
    begin: queue.begin,
    end: async () => {
      await queue.end();
      told.clear();
    },
    count: () => told.size,
  };
}

const mayBeMissed = ({ metadata, spec }: Pod): boolean =>
  metadata.deletionTimestamp === undefined && !spec.nodeName && (spec.volumes ?? []).some(isClaiming);

async function look(handling: MissedPodsHandling, told: Set<string>, key: string): Promise<"done"> {
  const { sources, pods, asking, events } = handling;
  const pod = pods.store.get(key);
  const uid = pod?.metadata.uid ?? "";
  if (pod === undefined || !mayBeMissed(pod) || told.has(uid) || isLeftOut(handling, pod)) return "done";
  const claims = await claimsOfPod(sources, pod.metadata.namespace ?? "", pod.spec.volumes ?? []);
  const message = missedPlacement(pod, claims, asking);
  if (message === undefined || pods.store.get(key)?.metadata.uid !== uid) return "done";
  if (!(await wasReported(handling.client, pod))) events.record(pod, "Warning", REASON, message);
  if (pods.store.get(key)?.metadata.uid === uid) told.add(uid);
  return "done";
}

/** Where the configuration has the webhook look the other way, nothing is missed. */
function isLeftOut({ namespaces, configurations, ownNamespace }: MissedPodsHandling, { metadata }: Pod): boolean {
  const { namespace = "", labels = {} } = metadata;
  if (namespace === ownNamespace) return true;
  const configuration = configurations.store.get(POD_WEBHOOK.configuration);
  const webhook = configuration?.webhooks?.find((one) => one.name === POD_WEBHOOK.webhook);
  const namespaceLabels = namespaces.store.get(namespace)?.metadata.labels ?? {};
  return (
    !matchesSelector(webhook?.namespaceSelector, namespaceLabels) || !matchesSelector(webhook?.objectSelector, labels)
  );
}

/** By a leader before this one. */
async function wasReported(client: Pick<KubeClient, "list">, { metadata }: Pod): Promise<boolean> {
  const fieldSelector = `involvedObject.uid=${metadata.uid},reason=${REASON}`;
  const { items } = await client.list(EVENTS, { namespace: metadata.namespace, fieldSelector });
  return items.length > 0;
}
