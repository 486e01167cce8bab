// An AdmissionReview of a pod, read without trust, and the answer to it. Pure.
import * as z from "zod";
import { PODS, type Pod } from "../../contracts/kubernetes/resources.ts";
import {
  answeredReview,
  checked,
  isAbout,
  readAdmissionReview,
} from "../../platform/kube/admission/admission-review.ts";

/** One step of an RFC 6902 patch. */
export interface PatchStep {
  readonly op: "add";
  readonly path: string;
  readonly value: unknown;
}

/** Of a claim: what decides which driver makes how much of what. */
export interface ClaimDemand {
  readonly volumeName?: string | undefined;
  readonly storageClassName?: string | undefined;
  readonly resources?: { readonly requests?: { readonly storage?: string | undefined } | undefined } | undefined;
}

export interface AdmittedVolume {
  readonly name: string;
  readonly persistentVolumeClaim?: { readonly claimName: string } | undefined;
  /** The claim is made with the pod, as PODNAME-VOLUMENAME. */
  readonly ephemeral?:
    | { readonly volumeClaimTemplate?: { readonly spec?: ClaimDemand | undefined } | undefined }
    | undefined;
}

type Amounts = Readonly<Record<string, string | number>>;

export interface AdmittedContainer {
  readonly name: string;
  readonly resources?: { readonly requests?: Amounts | undefined; readonly limits?: Amounts | undefined } | undefined;
}

/** What is read of a pod: less than the API server's own type, of which it has not made sure here. */
export interface AdmittedPod {
  readonly metadata?: { readonly annotations?: Record<string, string> | undefined } | undefined;
  readonly spec: Pick<Pod["spec"], "nodeName" | "schedulerName"> & {
    readonly containers: readonly AdmittedContainer[];
    readonly volumes?: readonly AdmittedVolume[] | undefined;
  };
}

export interface PodReview {
  readonly uid: string;
  readonly namespace: string;
  /** Undefined: it is about something else than a pod that is made. */
  readonly pod: AdmittedPod | undefined;
}

const quantities = z.record(z.string(), z.union([z.string(), z.number()])).optional();
const resources = z.looseObject({ requests: quantities, limits: quantities });
const claimSpec = z.looseObject({
  storageClassName: z.string().optional(),
  resources: z
    .looseObject({ requests: z.looseObject({ storage: z.coerce.string().optional() }).optional() })
    .optional(),
});
const volume = z.looseObject({
  name: z.string(),
  persistentVolumeClaim: z.looseObject({ claimName: z.string() }).optional(),
  ephemeral: z
    .looseObject({ volumeClaimTemplate: z.looseObject({ spec: claimSpec.optional() }).optional() })
    .optional(),
});
const podSchema = z.looseObject({
  metadata: z.looseObject({ annotations: z.record(z.string(), z.string()).optional() }).optional(),
  spec: z.looseObject({
    nodeName: z.string().optional(),
    schedulerName: z.string().optional(),
    containers: z.array(z.looseObject({ name: z.string(), resources: resources.optional() })).min(1),
    volumes: z.array(volume).optional(),
  }),
});
/** Throws ForeignReview. */
export function readReview(body: string): PodReview {
  const request = readAdmissionReview(body);
  const isPod = isAbout(request, PODS);
  const pod =
    isPod && request.operation === "CREATE" ? checked(podSchema, request.object, "the object is not a pod") : undefined;
  return { uid: request.uid, namespace: request.namespace, pod };
}

/** Always allows: where a pod is put is not a reason to refuse it. */
export function answerOf(uid: string, patch: readonly PatchStep[], warnings: readonly string[]): object {
  const changes =
    patch.length === 0 ? {} : { patchType: "JSONPatch", patch: Buffer.from(JSON.stringify(patch)).toString("base64") };
  const told = warnings.length === 0 ? {} : { warnings };
  return answeredReview(uid, { allowed: true, ...changes, ...told });
}
