// An AdmissionReview (admission.k8s.io/v1) as the API server sends it, read without trust, and the frame of an answer. Pure.
import * as z from "zod";
import type { KubeObject, Resource } from "../../../contracts/kubernetes/object.ts";
import { RequestRefused } from "./webhook-server.ts";

const REVIEW_VERSION = "admission.k8s.io/v1";

/** What an API server asks about. The objects are as they came. */
export interface AdmissionRequest {
  readonly uid: string;
  /** Empty where the object is in none. */
  readonly namespace: string;
  /** "CREATE", "UPDATE", "DELETE" or "CONNECT". */
  readonly operation: string;
  readonly resource: { readonly group: string; readonly version: string; readonly resource: string };
  readonly subResource?: string | undefined;
  readonly object?: unknown;
  /** Of an update and a deletion: what stands there now. */
  readonly oldObject?: unknown;
}

/** The API server never sends this: the webhook answers it with a status 400 and this error's message. */
export class ForeignReview extends RequestRefused {
  override name = "ForeignReview";
  constructor(message: string) {
    super(400, message);
  }
}

// Of what else there is nothing is copied: a body may be made to take memory.
const reviewSchema = z.object({
  apiVersion: z.literal(REVIEW_VERSION),
  kind: z.literal("AdmissionReview"),
  request: z.object({
    uid: z.string().min(1),
    namespace: z.string().default(""),
    operation: z.string(),
    resource: z.object({ group: z.string(), version: z.string(), resource: z.string() }),
    subResource: z.string().optional(),
    object: z.unknown(),
    oldObject: z.unknown(),
  }),
});

/** Throws ForeignReview. */
export function readAdmissionReview(body: string): AdmissionRequest {
  return checked(reviewSchema, parsed(body), `no AdmissionReview of ${REVIEW_VERSION}`).request;
}

/** Whether the object itself is of this kind: a subresource is another thing. */
export function isAbout({ resource: asked, subResource }: AdmissionRequest, resource: Resource<KubeObject>): boolean {
  const { group, version, plural } = resource;
  return asked.group === group && asked.version === version && asked.resource === plural && !subResource;
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw new ForeignReview(`no JSON in ${body.length} characters, or truncated`);
  }
}

/** The value as the schema has it. Throws ForeignReview, with `problem` and the first place that is wrong. */
export function checked<T>(schema: z.ZodType<T>, value: unknown, problem: string): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new ForeignReview(`${problem}: ${issue?.path.join(".") || "the whole"}: ${issue?.message}`);
}

/** `response`: all of it but the UID. */
export function answeredReview(uid: string, response: object): object {
  return { apiVersion: REVIEW_VERSION, kind: "AdmissionReview", response: { uid, ...response } };
}
