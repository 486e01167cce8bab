// An emergency grant in numbers: one type from the policy-engine, which grants, to the agent, which uses it.
import { formatQuantity, parseQuantity } from "../quantities/quantity.ts";
import type { EmergencyGrant, FilesystemLayout } from "./filesystem-layout.ts";

export interface Grant {
  /** The agent may grow up to this size of the members. */
  readonly sizeBytes: number;
  /** It does so when fewer bytes are available. */
  readonly minAvailableBytes: number;
  /** Unix time; 0: it cannot be read, and has passed. */
  readonly expiryMs: number;
  /** Of the leader that granted it. */
  readonly epoch: number;
}

/** Throws QuantityError. */
export function readGrant({ size, minAvailable, expiry, epoch, ...others }: EmergencyGrant): Grant {
  void (others satisfies Record<string, never>);
  const expiryMs = Date.parse(expiry);
  return {
    sizeBytes: parseQuantity(size),
    minAvailableBytes: parseQuantity(minAvailable),
    expiryMs: Number.isNaN(expiryMs) ? 0 : expiryMs,
    epoch,
  };
}

export function writeGrant({ sizeBytes, minAvailableBytes, expiryMs, epoch }: Grant): Required<EmergencyGrant> {
  return {
    size: formatQuantity(sizeBytes),
    minAvailable: formatQuantity(minAvailableBytes),
    expiry: new Date(expiryMs).toISOString(),
    epoch,
  };
}

// What every process must know of an emergency grant: how long it lives, and whether one came after a decision. Pure.

/**
 * How long a grant lives. The node counts from its reading of the grant, by its monotonic clock, and the engine renews it long before.
 * `expiry` is the same as a date, for people and for a node that does not know when it read the grant.
 */
export const EMERGENCY_LIFE_MS = 24 * 3_600_000;

/** Whether an emergency came last, after that decision: it ends every other operation. */
export function isEmergencySince({ status }: FilesystemLayout, decidedAt: string): boolean {
  const last = status?.lastOperation;
  return last?.emergency === true && Date.parse(last.startedAt) > Date.parse(decidedAt);
}
