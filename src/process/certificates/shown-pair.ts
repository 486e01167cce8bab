// The certificate that a TLS server shows, replaced while it listens: new connections get the new one, established ones go on.
import { createSecureContext, type SecureContextOptions, type Server } from "node:tls";
import type { Secret } from "../../kube/resources.ts";
import type { Logger } from "../log.ts";
import type { StoredPair } from "./decide-certificates.ts";
import { hasPair, storedPair } from "./pair-secret.ts";

/** Throws, and the server goes on with what it has, when the pair cannot be used. */
export function showPair(
  server: Pick<Server, "setSecureContext">,
  { bundlePem, certificatePem, keyPem }: StoredPair,
  tlsOptions: SecureContextOptions,
): void {
  const options = { ca: bundlePem, cert: certificatePem, key: keyPem, ...tlsOptions };
  createSecureContext(options); // setSecureContext does not leave things as they were
  server.setSecureContext(options);
}

/** Shows what the Secret holds. False: it is empty, or, with a word in the log, holds no usable pair, and the one before goes on. */
export function showSecret(secret: Secret, replace: (pair: StoredPair) => void, log: Logger): boolean {
  // An empty one would be shown as no certificate at all.
  if (!hasPair(secret)) return false;
  const subject = { secret: secret.metadata.name };
  try {
    replace(storedPair(secret));
    log.info(subject, "new connections get the certificate of this Secret");
    return true;
  } catch {
    // Not the error: a parser may quote what it read.
    log.warn(subject, "the Secret holds no usable certificate; going on with the one before");
    return false;
  }
}
