// An AdmissionReview of a policy, read without trust: what is to be compiled, if anything is. Pure.
import { isDeepStrictEqual } from "node:util";
import * as z from "zod";
import { CLUSTER_VOLUME_POLICIES, VOLUME_POLICIES } from "../../contracts/kinds/volume-policy.ts";
import { API_VERSION } from "../../contracts/names.ts";
import {
  type AdmissionRequest,
  checked,
  isAbout,
  readAdmissionReview,
} from "../../platform/kube/admission/admission-review.ts";

export interface PolicyReview {
  readonly uid: string;
  /** "unasked": it is not asked whether a policy's spec may come to be; "too large": no policy that the API server takes is as large. */
  readonly policy: PolicyText | "unasked" | "too large";
}

/** A policy as JSON: between threads a text costs what it is long, whatever objects are in it. */
export interface PolicyText {
  /** Undefined: the cluster's. */
  readonly namespace: string | undefined;
  readonly text: string;
}

/** What reading a review costs in memory is up to 40 times its length; what the schema takes of a policy is some 200 KiB. */
const POLICY_CHARS_LIMIT = 512 * 1024;

const objectSchema = z.object({
  metadata: z.object({ name: z.string().default(""), deletionTimestamp: z.string().optional() }),
  spec: z.unknown(),
});
type PolicyObject = z.infer<typeof objectSchema>;

/** Throws ForeignReview. */
export function readPolicyReview(body: string): PolicyReview {
  const request = readAdmissionReview(body);
  const { uid } = request;
  const isOfNamespace = isAbout(request, VOLUME_POLICIES);
  if (!isOfNamespace && !isAbout(request, CLUSTER_VOLUME_POLICIES)) return { uid, policy: "unasked" };
  if (request.operation !== "CREATE" && request.operation !== "UPDATE") return { uid, policy: "unasked" };
  const object = checked(objectSchema, request.object, "the object is not a policy");
  if (request.operation === "UPDATE" && stays(object, request)) return { uid, policy: "unasked" };
  const { kind } = isOfNamespace ? VOLUME_POLICIES : CLUSTER_VOLUME_POLICIES;
  const namespace = isOfNamespace ? request.namespace : undefined;
  const { name } = object.metadata;
  const text = JSON.stringify({ apiVersion: API_VERSION, kind, metadata: { namespace, name }, spec: object.spec });
  return { uid, policy: text.length > POLICY_CHARS_LIMIT ? "too large" : { namespace, text } };
}

/** What stands there already stays, whatever it is: its owner must be able to label and to delete it. */
function stays({ metadata, spec }: PolicyObject, { oldObject }: AdmissionRequest): boolean {
  return (
    metadata.deletionTimestamp !== undefined || isDeepStrictEqual(spec, objectSchema.safeParse(oldObject).data?.spec)
  );
}
