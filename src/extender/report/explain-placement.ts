// How placement would answer for one pod now, by objects that are listed for it: the same code as the process', without its memory of
// recent answers.

import type { KubeObject, ObjectName, Resource } from "../../contracts/kubernetes/object.ts";
import { PODS } from "../../contracts/kubernetes/resources.ts";
import type { Store } from "../../platform/kube/cache/store.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { createLedger } from "../apply/ledger.ts";
import { isUnplaceable } from "../decide/decide-demand.ts";
import { type FitFailureReason, fitFailureSentence } from "../decide/decide-fit.ts";
import type { ScoreParts } from "../decide/decide-score.ts";
import { createProjections } from "../gather/caches.ts";
import {
  createClusterStores,
  KINDS_READ,
  type KindsRead,
  RESOURCES,
  type WritableStores,
} from "../gather/cluster-stores.ts";
import { createClusterView } from "../gather/cluster-view.ts";
import { createPlacement, type PlacementSettings } from "../place-pods.ts";

export interface PodExplanation {
  /** NAMESPACE/NAME. */
  readonly pod: string;
  /** Why no node at all takes it, or why every node does; `nodes` is empty then. */
  readonly message: string | undefined;
  readonly nodes: readonly NodeVerdict[];
}

export interface NodeVerdict {
  readonly nodeName: string;
  readonly fits: boolean;
  readonly reason: FitFailureReason | undefined;
  readonly message: string | undefined;
  /** 0 to 10, of its parts by their weights. */
  readonly score: number;
  readonly parts: ScoreParts;
}

/** Throws KubeError, and an Error where there is no such pod. */
export async function explainPod(
  client: Pick<KubeClient, "list">,
  name: ObjectName,
  settings: PlacementSettings,
  nowMs: number,
): Promise<PodExplanation> {
  const pod = `${name.namespace}/${name.name}`;
  const select = { namespace: name.namespace ?? "default", fieldSelector: `metadata.name=${name.name}` };
  const [asked] = (await client.list(PODS, select)).items;
  if (asked === undefined) throw new Error(`there is no pod ${pod}`);
  const stores = createClusterStores();
  const ledger = createLedger(0);
  const view = createClusterView(stores, ledger, () => nowMs);
  for (const kind of KINDS_READ) await listInto(client, kind, stores, view.changed);
  const explained = createPlacement(view, ledger, settings).explain(asked, nowMs);
  if (explained === undefined) return { pod, message: "it has no volumes of Tidemark: every node takes it", nodes: [] };
  if (isUnplaceable(explained)) return { pod, message: explained.sentence, nodes: [] };
  const nodes = explained.map(({ nodeName, fitFailure, parts, score }) => ({
    nodeName,
    fits: fitFailure === undefined,
    reason: fitFailure?.reason,
    message: fitFailure === undefined ? undefined : fitFailureSentence(fitFailure, fitFailure.has, 1),
    score,
    parts,
  }));
  return { pod, message: undefined, nodes: nodes.sort((one, other) => other.score - one.score) };
}

async function listInto<K extends keyof KindsRead>(
  client: Pick<KubeClient, "list">,
  kind: K,
  stores: WritableStores,
  changed: (kind: K, object: KindsRead[K]) => void,
): Promise<void> {
  const resource = RESOURCES[kind] as unknown as Resource<KindsRead[K] & KubeObject>;
  const { items } = await client.list(resource, {}, createProjections()[kind]);
  for (const object of items) {
    (stores[kind] as unknown as Store<KindsRead[K] & KubeObject>).put(object);
    changed(kind, object);
  }
}
