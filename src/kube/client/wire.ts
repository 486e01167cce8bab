// One request and its answer, in Kubernetes' terms: JSON out, an object or a KubeError back. What both reads and writes of
// the client stand on; it knows no verbs.
import type { Effects } from "../../process/effects.ts";
import { KubeError } from "../kube-error.ts";
import type { KubeObject, Resource } from "../object.ts";
import { apiVersionOf } from "./api-path.ts";
import { errorOfStatus, parseStatus } from "./status-error.ts";
import type { Transport, TransportAnswer, TransportRequest } from "./transport.ts";
import type { WarningLog } from "./warning-log.ts";

export const JSON_TYPE = "application/json";

export interface Wire {
  readonly transport: Transport;
  readonly effects: Effects;
  readonly userAgent: string;
  readonly warnings: WarningLog;
}

export interface Request {
  readonly method: TransportRequest["method"];
  readonly path: string;
  readonly type?: string;
  readonly body?: object;
}

export async function send(wire: Wire, { method, path, type, body }: Request): Promise<TransportAnswer> {
  const headers = { accept: JSON_TYPE, "user-agent": wire.userAgent, ...(type && { "content-type": type }) };
  const answer = await wire.transport.send({ method, path, headers, body: body && JSON.stringify(body) });
  wire.warnings.hear(answer.headers["warning"]);
  return answer;
}

/** Only a Status that names the object says that it is not there: any other 404 says that the kind is not served, which proves nothing. */
export function saysNoSuchObject({ status, text }: TransportAnswer, name: string): boolean {
  return status === 404 && parseStatus(text)?.details?.name === name;
}

export function parseAnswer<T>(subject: string, answer: TransportAnswer): T {
  if (answer.status < 200 || answer.status > 299) throw refusal(subject, answer);
  try {
    return JSON.parse(answer.text) as T;
  } catch (cause) {
    throw new KubeError("Internal", answer.status, `${subject}: the answer is no JSON`, { cause });
  }
}

export function refusal(subject: string, { status, headers, text }: TransportAnswer): KubeError {
  const retryAfter = headers["retry-after"];
  return errorOfStatus(subject, status, parseStatus(text), text, Array.isArray(retryAfter) ? undefined : retryAfter);
}

/** The object as this client hands it out; changes it in place, it is fresh from the parser. managedFields are half of its memory. */
export function completed<T extends KubeObject>(resource: Resource<T>, object: T): T {
  object.apiVersion ??= apiVersionOf(resource);
  object.kind ??= resource.kind;
  delete (object.metadata as { managedFields?: unknown }).managedFields;
  return object;
}
