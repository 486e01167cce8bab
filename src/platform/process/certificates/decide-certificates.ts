// What must become of the CA and of each leaf, from their Secrets and the time alone. Pure but for parsing. A new CA is published first and
// signs only after an overlap; an old one stays trusted until no leaf of it can be in use.
import {
  authorityProblem,
  endOf,
  isIssuedBy,
  type KeyPair,
  type LeafProfile,
  leafProblem,
  readBundle,
  readCertificate,
  type StoredPair,
  startOf,
} from "./key-pair.ts";

/** CAs in addition to the one that signs. More exist only when an administrator added them. */
const RETIRING_LIMIT = 4;

export type PairDecision =
  | { readonly do: "keep" }
  /** `problem`: what was wrong with what stood there; absent when there was none, or its time had come. */
  | { readonly do: "make"; readonly why: "Absent" | "Broken" | "Due" | "NewAuthority"; readonly problem?: string };

export function decideAuthority(stored: StoredPair | undefined, nowMs: number, times: CertificateTimes): PairDecision {
  if (stored === undefined) return { do: "make", why: "Absent" };
  const problem = authorityProblem(stored, nowMs);
  if (problem !== undefined) return { do: "make", why: "Broken", problem };
  return isDue(stored, nowMs, times) ? { do: "make", why: "Due" } : { do: "keep" };
}

/**
 * All CAs to be trusted, the signing one first. `stored` is the CA's Secret as it stood, `leaves` the Secrets that it serves: where the
 * CA's was lost, theirs still show which CAs their holders trust.
 */
export function decideBundle(
  signing: KeyPair,
  stored: StoredPair | undefined,
  leaves: readonly (StoredPair | undefined)[],
  nowMs: number,
  times: CertificateTimes,
): string[] {
  const known = [stored, ...leaves].flatMap((pair) =>
    readBundle(`${pair?.certificatePem ?? ""}${pair?.bundlePem ?? ""}`),
  );
  const own = readBundle(signing.certificatePem);
  const retiring = [...new Set(known)].filter((authority) => {
    const certificate = readCertificate(authority);
    if (typeof certificate === "string" || !certificate.ca || own.includes(authority)) return false;
    return endOf(certificate) > nowMs && mayBeInUse(authority, signing, leaves, nowMs, times);
  });
  return [...own, ...retiring.slice(0, RETIRING_LIMIT)];
}

/** Whether a leaf of this CA stands in a Secret, or did within the overlap. */
function mayBeInUse(
  authority: string,
  signing: KeyPair,
  leaves: readonly (StoredPair | undefined)[],
  nowMs: number,
  times: CertificateTimes,
): boolean {
  return leaves.some((leaf) => {
    const certificate = readCertificate(leaf?.certificatePem ?? "");
    if (typeof certificate === "string") return false;
    if (!isIssuedBy(certificate, signing.certificatePem)) return isIssuedBy(certificate, authority);
    return nowMs < startOf(certificate) + CLOCK_SKEW_MS + times.overlapMs;
  });
}

export function decideLeaf(
  stored: StoredPair | undefined,
  signing: KeyPair,
  bundle: readonly string[],
  profile: LeafProfile,
  nowMs: number,
  times: CertificateTimes,
): PairDecision {
  if (stored === undefined) return { do: "make", why: "Absent" };
  const problem = leafProblem(stored, bundle, profile, nowMs);
  if (problem !== undefined) return { do: "make", why: "Broken", problem };
  const certificate = readCertificate(stored.certificatePem);
  const authority = readCertificate(signing.certificatePem);
  if (typeof certificate === "string" || typeof authority === "string") return { do: "keep" };
  // Not everybody may know a CA that was made just now; the old leaf is good for months yet.
  if (nowMs < startOf(authority) + CLOCK_SKEW_MS + times.overlapMs) return { do: "keep" };
  if (isDue(stored, nowMs, times)) return { do: "make", why: "Due" };
  return isIssuedBy(certificate, signing.certificatePem) ? { do: "keep" } : { do: "make", why: "NewAuthority" };
}

function isDue({ certificatePem }: KeyPair, nowMs: number, times: CertificateTimes): boolean {
  const certificate = readCertificate(certificatePem);
  return typeof certificate !== "string" && endOf(certificate) - times.renewBeforeMs <= nowMs;
}

const DAY_MS = 86_400_000;

/** A CA and its leaves follow the same rules; only their lives differ. */
export interface CertificateTimes {
  readonly authorityLifeMs: number;
  readonly leafLifeMs: number;
  /** A certificate with less life than this left is replaced. */
  readonly renewBeforeMs: number;
  /**
   * How long a new CA is trusted by everybody before it signs, and an old one after its last leaf was replaced. Far above the
   * minutes in which kubelet brings a changed Secret to its pods.
   */
  readonly overlapMs: number;
}

export const CERTIFICATE_TIMES: CertificateTimes = {
  authorityLifeMs: 3650 * DAY_MS,
  leafLifeMs: 365 * DAY_MS,
  renewBeforeMs: 90 * DAY_MS,
  overlapMs: DAY_MS,
};

/** Certificates begin this much in the past: nodes' clocks differ. */
export const CLOCK_SKEW_MS = 3_600_000;
