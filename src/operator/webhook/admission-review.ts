// An AdmissionReview (admission.k8s.io/v1) as the API server sends it, read without trust, and the answer to it. Pure.
import { z } from "zod";
import type { Pod } from "../../kube/resources.ts";

const REVIEW_VERSION = "admission.k8s.io/v1";

/** One step of an RFC 6902 patch. */
export interface PatchStep {
  readonly op: "add";
  readonly path: string;
  readonly value: unknown;
}

export type AdmittedPod = Pick<Pod, "spec"> & { readonly metadata?: { readonly annotations?: Record<string, string> } };

export interface PodReview {
  readonly uid: string;
  readonly namespace: string;
  /** Undefined: it is about something else than a pod that is made. */
  readonly pod: AdmittedPod | undefined;
}

/** Nobody sends this by right: what answers it is a status 400 with the sentence. */
export class ForeignReview extends Error {
  override name = "ForeignReview";
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
const reviewSchema = z.looseObject({
  apiVersion: z.literal(REVIEW_VERSION),
  kind: z.literal("AdmissionReview"),
  request: z.looseObject({
    uid: z.string().min(1),
    namespace: z.string().optional(),
    operation: z.string(),
    resource: z.looseObject({ group: z.string(), version: z.string(), resource: z.string() }),
    subResource: z.string().optional(),
    object: z.unknown(),
  }),
});

/** Throws ForeignReview. */
export function readReview(body: string): PodReview {
  const { request } = checked(reviewSchema, parsed(body), "no AdmissionReview of admission.k8s.io/v1");
  const { group, version, resource } = request.resource;
  const isPod = group === "" && version === "v1" && resource === "pods" && !request.subResource;
  const pod =
    isPod && request.operation === "CREATE" ? checked(podSchema, request.object, "the object is no pod") : undefined;
  return { uid: request.uid, namespace: request.namespace ?? "", pod };
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw new ForeignReview(`no JSON in ${body.length} characters, or truncated`);
  }
}

function checked<T>(schema: z.ZodType<T>, value: unknown, problem: string): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new ForeignReview(`${problem}: ${issue?.path.join(".") || "the whole"}: ${issue?.message}`);
}

/** Always allows: where a pod is put is no reason to refuse it. */
export function answerOf(uid: string, patch: readonly PatchStep[], warnings: readonly string[]): object {
  const changes =
    patch.length === 0 ? {} : { patchType: "JSONPatch", patch: Buffer.from(JSON.stringify(patch)).toString("base64") };
  const told = warnings.length === 0 ? {} : { warnings };
  return { apiVersion: REVIEW_VERSION, kind: "AdmissionReview", response: { uid, allowed: true, ...changes, ...told } };
}
