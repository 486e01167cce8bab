// A certificate with its private key, as PEM in a Secret of type kubernetes.io/tls: reading and judging it, with Node's own
// parser. A problem is a sentence without any of the key in it.
import { createPrivateKey, X509Certificate } from "node:crypto";
import type { Secret } from "../../../contracts/kubernetes/resources.ts";

export interface KeyPair {
  /** PEM; never logged. */
  readonly keyPem: string;
  readonly certificatePem: string;
}

export type Usage = "server" | "client";

/** Who a leaf certificate is for. */
export interface LeafProfile {
  readonly commonName: string;
  readonly usage: Usage;
  /** IP addresses that it is for, too; none when absent. */
  readonly addresses?: readonly string[];
}

/** id-kp-serverAuth and id-kp-clientAuth (RFC 5280). */
export const USAGE_OIDS: Readonly<Record<Usage, string>> = {
  server: "1.3.6.1.5.5.7.3.1",
  client: "1.3.6.1.5.5.7.3.2",
};

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** All certificates of a bundle that can be read, each as PEM in Node's own spelling; what cannot be is left out. */
export function readBundle(bundlePem: string): string[] {
  return (bundlePem.match(PEM_CERTIFICATE) ?? []).flatMap((pem) => {
    const certificate = readCertificate(pem);
    return typeof certificate === "string" ? [] : [certificate.toString()];
  });
}

/** The first certificate of a PEM text, or why there is none. */
export function readCertificate(pem: string): X509Certificate | string {
  try {
    return new X509Certificate(pem);
  } catch {
    return "its certificate is not an X.509 certificate in PEM";
  }
}

export const startOf = (certificate: X509Certificate): number => Date.parse(certificate.validFrom);
export const endOf = (certificate: X509Certificate): number => Date.parse(certificate.validTo);

/** Undefined when the pair is a CA that can sign now. */
export function authorityProblem(pair: KeyPair, nowMs: number): string | undefined {
  const certificate = readCertificate(pair.certificatePem);
  if (typeof certificate === "string") return certificate;
  if (!certificate.ca) return "its certificate is not one of a CA";
  if (!certificate.verify(certificate.publicKey)) return "its certificate is not signed by itself";
  return keyProblem(pair, certificate) ?? expiryProblem(certificate, nowMs);
}

/** Undefined when the pair is usable now, for this profile, under one of these CAs. */
export function leafProblem(
  pair: KeyPair,
  bundle: readonly string[],
  { commonName, usage }: LeafProfile,
  nowMs: number,
): string | undefined {
  const certificate = readCertificate(pair.certificatePem);
  if (typeof certificate === "string") return certificate;
  if (certificate.checkHost(commonName) === undefined) return `its certificate does not name ${commonName}`;
  if (!certificate.keyUsage?.includes(USAGE_OIDS[usage])) return `its certificate is not one of a ${usage}`;
  if (!bundle.some((authority) => isIssuedBy(certificate, authority))) return "no CA that is trusted has signed it";
  return keyProblem(pair, certificate) ?? expiryProblem(certificate, nowMs);
}

export function isIssuedBy(certificate: X509Certificate, authorityPem: string): boolean {
  const authority = readCertificate(authorityPem);
  return typeof authority !== "string" && certificate.checkIssued(authority) && certificate.verify(authority.publicKey);
}

function keyProblem({ keyPem }: KeyPair, certificate: X509Certificate): string | undefined {
  try {
    return certificate.checkPrivateKey(createPrivateKey(keyPem))
      ? undefined
      : "its key does not belong to its certificate";
  } catch {
    return "its key is not a private key in PEM";
  }
}

function expiryProblem(certificate: X509Certificate, nowMs: number): string | undefined {
  return endOf(certificate) <= nowMs ? `its certificate has expired at ${certificate.validTo}` : undefined;
}

/** A pair with the CAs to trust: what a Secret holds, as text; an absent key is "". */
export interface StoredPair extends KeyPair {
  readonly bundlePem: string;
}

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
