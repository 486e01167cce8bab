// How long certificates live, and when the next one is made. A CA and its leaves follow the same rules; only the lives differ.

const DAY_MS = 86_400_000;

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
