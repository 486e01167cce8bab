// Making keys and certificates: ECDSA on P-256, a CA that signs leaves only. It decides nothing about when. The library is loaded when a
// certificate is made.
import { webcrypto, X509Certificate } from "node:crypto";
import { type CertificateTimes, CLOCK_SKEW_MS } from "./decide-certificates.ts";
import { endOf, type KeyPair, type LeafProfile, readCertificate, type StoredPair, USAGE_OIDS } from "./key-pair.ts";

const KEY_ALGORITHM = { name: "ECDSA", namedCurve: "P-256" };
const SIGNING_ALGORITHM = { name: "ECDSA", hash: "SHA-256" };
const NAME_TAIL_BYTES = 4;

async function loadLibrary() {
  await import("reflect-metadata"); // the library asks for it
  return import("@peculiar/x509");
}

/** A new CA, which signs itself. Its name is its own, so that two of them in one bundle are never mixed up. */
export async function makeAuthority(name: string, nowMs: number, times: CertificateTimes): Promise<KeyPair> {
  const x509 = await loadLibrary();
  const keys = await webcrypto.subtle.generateKey(KEY_ALGORITHM, true, ["sign", "verify"]);
  const tail = Buffer.from(webcrypto.getRandomValues(new Uint8Array(NAME_TAIL_BYTES))).toString("hex");
  const certificate = await x509.X509CertificateGenerator.createSelfSigned(
    {
      name: [{ CN: [`${name}-${tail}`] }],
      notBefore: new Date(nowMs - CLOCK_SKEW_MS),
      notAfter: new Date(nowMs + times.authorityLifeMs),
      signingAlgorithm: SIGNING_ALGORITHM,
      keys,
      extensions: [
        new x509.BasicConstraintsExtension(true, 0, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
      ],
    },
    webcrypto,
  );
  return { certificatePem: certificatePem(certificate), keyPem: await keyPem(keys.privateKey) };
}

/** A new key with a certificate that the CA signs; it never outlives the CA. Throws when the CA's pair cannot be read. */
export async function issueLeaf(
  authority: KeyPair,
  { commonName, usage, addresses = [] }: LeafProfile,
  nowMs: number,
  times: CertificateTimes,
): Promise<KeyPair> {
  const x509 = await loadLibrary();
  const signing = readCertificate(authority.certificatePem);
  if (typeof signing === "string") throw new Error(`the CA cannot sign: ${signing}`);
  const keys = await webcrypto.subtle.generateKey(KEY_ALGORITHM, true, ["sign", "verify"]);
  const issuer = new x509.X509Certificate(authority.certificatePem);
  const certificate = await x509.X509CertificateGenerator.create(
    {
      subject: [{ CN: [commonName] }],
      issuer: issuer.subject,
      notBefore: new Date(nowMs - CLOCK_SKEW_MS),
      notAfter: new Date(Math.min(nowMs + times.leafLifeMs, endOf(signing))),
      publicKey: keys.publicKey,
      signingKey: await importSigningKey(authority.keyPem),
      signingAlgorithm: SIGNING_ALGORITHM,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([USAGE_OIDS[usage]]),
        new x509.SubjectAlternativeNameExtension([
          { type: "dns", value: commonName },
          ...addresses.map((value) => ({ type: "ip" as const, value })),
        ]),
        await x509.AuthorityKeyIdentifierExtension.create(issuer, false, webcrypto),
      ],
    },
    webcrypto,
  );
  return { certificatePem: certificatePem(certificate), keyPem: await keyPem(keys.privateKey) };
}

function certificatePem(certificate: { toString(format: "pem"): string }): string {
  return new X509Certificate(certificate.toString("pem")).toString();
}

async function keyPem(key: webcrypto.CryptoKey): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", key)).toString("base64");
  return `-----BEGIN PRIVATE KEY-----\n${(der.match(/.{1,64}/g) ?? []).join("\n")}\n-----END PRIVATE KEY-----\n`;
}

function importSigningKey(pem: string): Promise<webcrypto.CryptoKey> {
  const der = Buffer.from(pem.replaceAll(/-----[^-]+-----|\s/g, ""), "base64");
  return webcrypto.subtle.importKey("pkcs8", der, KEY_ALGORITHM, false, ["sign"]);
}

const TEN_YEARS_MS = 10 * 365 * 86_400_000;
/** Longer than the process; a new start makes a new one. */
const OWN_PAIR_TIMES: CertificateTimes = {
  authorityLifeMs: TEN_YEARS_MS,
  leafLifeMs: TEN_YEARS_MS,
  renewBeforeMs: 0,
  overlapMs: 0,
};

/** A pair that a server makes for itself, in memory: it encrypts, but callers cannot check who answers. */
export async function makeOwnPair(commonName: string, nowMs: number): Promise<StoredPair> {
  const authority = await makeAuthority(commonName, nowMs, OWN_PAIR_TIMES);
  const leaf = await issueLeaf(authority, { commonName, usage: "server" }, nowMs, OWN_PAIR_TIMES);
  return { ...leaf, bundlePem: authority.certificatePem };
}
