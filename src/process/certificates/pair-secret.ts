// A key pair with the CAs to trust, as a Secret: ca.crt, tls.crt and tls.key, what a mounted TLS Secret looks like everywhere.
import type { Secret } from "../../kube/resources.ts";
import type { StoredPair } from "./decide-certificates.ts";
import type { KeyPair } from "./key-pair.ts";

export const PAIR_KEYS = { bundlePem: "ca.crt", certificatePem: "tls.crt", keyPem: "tls.key" } as const;

export function storedPair(secret: Secret): StoredPair {
  const text = (key: string): string => Buffer.from(secret.data?.[key] ?? "", "base64").toString("utf8");
  return {
    bundlePem: text(PAIR_KEYS.bundlePem),
    certificatePem: text(PAIR_KEYS.certificatePem),
    keyPem: text(PAIR_KEYS.keyPem),
  };
}

/** False: it is there, empty, as the manifests have it before the first certificate is made. */
export function hasPair({ data = {} }: Secret): boolean {
  return Object.values(PAIR_KEYS).some((key) => data[key] !== undefined && data[key] !== "");
}

/** What `found` has besides stays; its resourceVersion guards the update. */
export function withPair(found: Secret, pair: KeyPair, bundle: readonly string[]): Secret {
  const base64 = (text: string): string => Buffer.from(text).toString("base64");
  const data = {
    ...found.data,
    [PAIR_KEYS.bundlePem]: base64(bundle.join("")),
    [PAIR_KEYS.certificatePem]: base64(pair.certificatePem),
    [PAIR_KEYS.keyPem]: base64(pair.keyPem),
  };
  return { ...found, data };
}
