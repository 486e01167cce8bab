// One ordinary claim made consistent: gather, decide, apply, report. The request is raised before its target is recorded as
// carried: a crash in between raises it to the same size again, which changes nothing.
import type { Filesystem, SizeTarget } from "../../contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { PERSISTENT_VOLUME_CLAIMS, type PersistentVolume } from "../../contracts/kubernetes/resources.ts";
import { FIELD_MANAGERS } from "../../contracts/names.ts";
import { formatQuantity, parseQuantity } from "../../contracts/quantities/quantity.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { shows } from "../../platform/kube/client/writes.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import { KubeError } from "../../platform/kube/kube-error.ts";
import type { Outcome } from "../../platform/kube/queue/work-queue.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import { writeFilesystem } from "../apply/volume-objects.ts";
import { createReconcileQueue, type Duty } from "../led-queue.ts";
import type { OperatorMetrics } from "../metrics.ts";
import { reportFilesystem } from "../report/report-filesystem.ts";
import type { ClaimCaches } from "./claim-caches.ts";
import { gatherClaim, type OptIn, type OrdinaryClaim } from "./claim-facts.ts";
import {
  type CarriedTarget,
  carriedTarget,
  claimLayout,
  claimStatus,
  decideRequest,
  isAdopted,
  type RequestRefusal,
} from "./decide-claim.ts";

interface ClaimReconciling {
  readonly client: KubeClient;
  readonly caches: ClaimCaches;
  readonly optIn: OptIn;
  readonly events: EventRecorder;
  readonly clock: Clock;
}

const APPLY = { fieldManager: FIELD_MANAGERS.operator, force: true } as const;

export async function reconcileClaim(reconciling: ClaimReconciling, handle: string): Promise<Outcome> {
  const { client, caches, optIn } = reconciling;
  const facts = gatherClaim(caches, optIn, handle);
  if (facts === undefined) {
    await forgetClaim(client, caches.layouts.store.get(handle));
    return "done";
  }
  const { volume, claim } = facts;
  if (volume === undefined || !isAdopted(facts)) return "done";
  const layout = await writeLayout(client, facts, volume, facts.layout && carriedTarget(facts.layout));
  const { namespace = "", name, uid = "" } = claim.metadata;
  const filesystem = facts.filesystem ?? (await writeFilesystem(client, { namespace, name, uid }, true));
  const carried = await raiseToTarget(reconciling, facts, volume, layout, filesystem);
  await reportStatus(reconciling, { ...facts, layout: carried }, filesystem);
  return "done";
}

async function writeLayout(
  client: KubeClient,
  facts: OrdinaryClaim,
  volume: PersistentVolume,
  carried: CarriedTarget | undefined,
): Promise<FilesystemLayout> {
  const wanted = claimLayout(facts, volume, carried);
  const { layout } = facts;
  const isGone =
    (facts.nodeName === undefined && layout?.spec.nodeName !== undefined) ||
    (carried?.refusal === undefined && layout !== undefined && carriedTarget(layout)?.refusal !== undefined);
  if (layout !== undefined && !isGone && shows(layout, wanted)) return layout;
  return client.apply("claim/apply-layout", FILESYSTEM_LAYOUTS, wanted, APPLY);
}

/** Returns the layout as it is afterwards. */
async function raiseToTarget(
  { client, events }: ClaimReconciling,
  facts: OrdinaryClaim,
  volume: PersistentVolume,
  layout: FilesystemLayout,
  filesystem: Filesystem,
): Promise<FilesystemLayout> {
  const plan = decideRequest(facts, layout, filesystem);
  if (plan.do === "keep") return layout;
  const { target } = plan;
  const refused = plan.do === "raise" ? await raiseRequest(client, facts, target) : plan.refusal;
  if (refused !== undefined) events.record(filesystem, "Warning", refused.reason, refused.message);
  const refusal = refused?.reason === "ResizeFailed" ? refused.message : undefined;
  return writeLayout(client, { ...facts, layout, filesystem }, volume, { target, refusal });
}

/**
 * Asks the claim's own driver for more. The write applies to this very version of the claim only: it never undoes a
 * larger request that a user has just made. Throws KubeError; a refusal by the API server (a quota) is returned.
 */
async function raiseRequest(
  client: KubeClient,
  { claim }: OrdinaryClaim,
  target: SizeTarget,
): Promise<RequestRefusal | undefined> {
  const { namespace, name, uid, resourceVersion } = claim.metadata;
  const metadata = { namespace, name, uid, resourceVersion };
  const storage = formatQuantity(parseQuantity(target.size));
  const spec = { resources: { requests: { storage } } };
  const raised = { apiVersion: "v1", kind: PERSISTENT_VOLUME_CLAIMS.kind, metadata, spec };
  try {
    await client.apply("claim/raise-request", PERSISTENT_VOLUME_CLAIMS, raised, {
      fieldManager: FIELD_MANAGERS.claimRequest,
      force: true,
    });
    return undefined;
  } catch (error) {
    if (!(error instanceof KubeError) || (error.reason !== "Forbidden" && error.reason !== "Invalid")) throw error;
    return { reason: "ResizeFailed", message: `the request was not raised to ${storage}: ${error.message}` };
  }
}

/** There is no data of ours behind it. */
async function forgetClaim(client: KubeClient, layout: FilesystemLayout | undefined): Promise<void> {
  if (layout?.spec.backend !== "claim") return;
  const { namespace, name = "", uid } = layout.spec.claimRef ?? {};
  const live = await client.get(PERSISTENT_VOLUME_CLAIMS, { namespace: namespace ?? "", name });
  if (live !== undefined && live.metadata.uid === uid) return;
  await client.delete(
    "claim/delete-layout",
    FILESYSTEM_LAYOUTS,
    { name: layout.metadata.name },
    {
      ...(layout.metadata.uid === undefined ? {} : { uid: layout.metadata.uid }),
    },
  );
}

async function reportStatus(
  { client, clock }: ClaimReconciling,
  facts: OrdinaryClaim,
  filesystem: Filesystem,
): Promise<void> {
  const status = claimStatus(facts, filesystem, clock.nowMs());
  if (shows(filesystem, status)) return;
  await reportFilesystem(client, "claim/report-status", filesystem, (live) => claimStatus(facts, live, clock.nowMs()));
}

const CONCURRENCY = 8;

/** While this replica leads: every claim once when leadership begins, and each that changes. */
export function createClaimLoop(reconciling: ClaimReconciling, metrics: OperatorMetrics, log: Logger): Duty {
  const { caches } = reconciling;
  const run = (handle: string): Promise<Outcome> => reconcileClaim(reconciling, handle);
  const queue = createReconcileQueue(caches, { name: "claims", concurrency: CONCURRENCY, run }, metrics, log);
  caches.onChange(queue.add, queue.addAll);
  return queue;
}
