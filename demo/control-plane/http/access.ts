// Who may ask the embedded control plane: holders of the token of this start, over TLS, as kube-apiserver does it. Other users of this
// machine reach loopback, too, and are refused.
import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { ApiError } from "./api-error.ts";

export interface ControlPlaneAccess {
  /** What callers show as a bearer token. */
  readonly token: string;
  /** PEM: with a token in it, nothing goes over the wire in the clear; kubectl sends none otherwise. */
  readonly keyPem: string;
  readonly certificatePem: string;
}

/** Throws 401, in the words of kube-apiserver, for a request without the token. How long that takes says nothing about the token. */
export function refuseStrangers({ headers }: Pick<IncomingMessage, "headers">, { token }: ControlPlaneAccess): void {
  const [, shown = ""] = /^bearer +(\S+)$/i.exec(headers.authorization ?? "") ?? [];
  if (!timingSafeEqual(digestOf(shown), digestOf(token))) throw new ApiError(401, "Unauthorized", "Unauthorized");
}

/** Of one length, whatever was shown. */
function digestOf(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
