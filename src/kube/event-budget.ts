// How many Events one object may cause: a burst, then a trickle. Pure but for its own account; time is handed in.

export interface EventBudget {
  /** True when one more Event may be sent for this object now; it is then counted. */
  spend(objectKey: string, nowMs: number): boolean;
}

/** Events on one object at once. */
export const EVENT_BURST_LIMIT = 25;
/** And then one each. */
export const EVENT_INTERVAL_MS = 60_000;
/** Accounts kept; the one that was used longest ago goes first, and by then is mostly full again. */
const OBJECTS_LIMIT = 10_000;

interface Account {
  tokens: number;
  atMs: number;
}

export function createEventBudget(): EventBudget {
  const accounts = new Map<string, Account>();
  return {
    spend: (objectKey, nowMs) => {
      const { tokens, atMs } = accounts.get(objectKey) ?? { tokens: EVENT_BURST_LIMIT, atMs: nowMs };
      const earned = Math.max(0, nowMs - atMs) / EVENT_INTERVAL_MS;
      const available = Math.min(EVENT_BURST_LIMIT, tokens + earned);
      const granted = available >= 1;
      accounts.delete(objectKey);
      accounts.set(objectKey, { tokens: granted ? available - 1 : available, atMs: nowMs });
      if (accounts.size > OBJECTS_LIMIT) accounts.delete(accounts.keys().next().value ?? "");
      return granted;
    },
  };
}
