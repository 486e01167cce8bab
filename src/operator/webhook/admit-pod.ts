// One pod's admission: read → gather its claims → decide → answer. It never keeps a pod from being made: what cannot be found out in
// time leaves the pod as it is, and whoever makes it is told.
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import { answerOf, ForeignReview, type PodReview, readReview } from "./admission-review.ts";
import { decidePlacement, type Placement, type PlacementResult } from "./decide-placement.ts";
import { type ClaimSources, claimsOfPod } from "./pod-claims.ts";
import { Refusal } from "./webhook-server.ts";

/** "NotPods": another object or operation; "Unread": its claims could not be read; "Refused": no review, or no answer. */
export type AdmissionResult = PlacementResult | "NotPods" | "Unread" | "Refused";

export interface Admission {
  readonly sources: ClaimSources;
  /** Of the caches in `sources`. */
  readonly synced: Promise<void>;
  readonly asking: ReadonlySet<string>;
  /** Pods here are the operator's own. */
  readonly ownNamespace: string;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly answered: (result: AdmissionResult, durationMs: number) => void;
  readonly log: Logger;
}

/** Well under the timeoutSeconds of the webhook's configuration. */
export const READ_LIMIT_MS = 2000;
const UNREAD =
  "the pod's claims could not be read: if one is of a Tidemark class, the pod is placed without a look at its room";

type Answered = Omit<Placement, "result"> & { readonly result: AdmissionResult };

/** Throws Refusal for what is no review. */
export async function admitPod(admission: Admission, body: string): Promise<object> {
  const startedMs = admission.clock.monotonicMs();
  const review = reviewOf(body);
  const { result, patch, warnings } = await place(admission, review);
  admission.answered(result, admission.clock.monotonicMs() - startedMs);
  return answerOf(review.uid, patch, warnings);
}

function reviewOf(body: string): PodReview {
  try {
    return readReview(body);
  } catch (error) {
    if (error instanceof ForeignReview) throw new Refusal(400, error.message);
    throw error;
  }
}

async function place(admission: Admission, { namespace, pod }: PodReview): Promise<Answered> {
  const { sources, synced, asking, ownNamespace, log } = admission;
  if (pod === undefined || namespace === ownNamespace) return { result: "NotPods", patch: [], warnings: [] };
  try {
    const claims = await within(
      READ_LIMIT_MS,
      synced.then(() => claimsOfPod(sources, namespace, pod.spec.volumes ?? [])),
    );
    return decidePlacement(pod, claims, asking);
  } catch (err) {
    log.warn({ err, namespace }, "a pod's claims could not be read; it is made as it is");
    return { result: "Unread", patch: [], warnings: [UNREAD] };
  }
}

async function within<T>(limitMs: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${limitMs} ms`)), limitMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
