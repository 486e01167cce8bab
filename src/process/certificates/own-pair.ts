// A certificate that a server makes for itself, in memory: what is said is encrypted, and who answers cannot be checked. For callers that do not
// check, or until there is a better one.
import type { CertificateTimes } from "./certificate-times.ts";
import type { StoredPair } from "./decide-certificates.ts";
import { issueLeaf, makeAuthority } from "./issue-certificate.ts";

const YEARS_MS = 10 * 365 * 86_400_000;
/** Longer than the process; a new start makes a new one. */
const TIMES: CertificateTimes = {
  authorityLifeMs: YEARS_MS,
  leafLifeMs: YEARS_MS,
  renewBeforeMs: 0,
  overlapMs: 0,
};

export async function makeOwnPair(commonName: string, nowMs: number): Promise<StoredPair> {
  const authority = await makeAuthority(commonName, nowMs, TIMES);
  const leaf = await issueLeaf(authority, { commonName, usage: "server" }, nowMs, TIMES);
  return { ...leaf, bundlePem: authority.certificatePem };
}
