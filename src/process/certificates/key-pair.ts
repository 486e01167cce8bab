// A certificate with its private key, as PEM in a Secret of type kubernetes.io/tls: reading and judging it, with Node's own
// parser. A problem is a sentence without any of the key in it.
import { createPrivateKey, X509Certificate } from "node:crypto";

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
    return "its certificate is no X.509 certificate in PEM";
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
    return "its key is no private key in PEM";
  }
}

function expiryProblem(certificate: X509Certificate, nowMs: number): string | undefined {
  return endOf(certificate) <= nowMs ? `its certificate has expired at ${certificate.validTo}` : undefined;
}
