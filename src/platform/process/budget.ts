// How much each of many may do: a burst, then a trickle. Pure but for its own accounts; time is handed in.

export interface Budget {
  /** True when one more may be had on this account now; it is then counted. */
  spend(key: string, nowMs: number): boolean;
}

export interface BudgetLimits {
  /** At once. */
  readonly burst: number;
  /** And then one each. */
  readonly intervalMs: number;
  /** The least recently used account goes first, and by then is mostly full again. */
  readonly accounts: number;
}

interface Account {
  tokens: number;
  atMs: number;
}

export function createBudget(limits: BudgetLimits): Budget {
  const accounts = new Map<string, Account>();
  return {
    spend: (key, nowMs) => {
      const { tokens, atMs } = accounts.get(key) ?? { tokens: limits.burst, atMs: nowMs };
      const earned = Math.max(0, nowMs - atMs) / limits.intervalMs;
      const available = Math.min(limits.burst, tokens + earned);
      const granted = available >= 1;
      accounts.delete(key);
      accounts.set(key, { tokens: granted ? available - 1 : available, atMs: nowMs });
      if (accounts.size > limits.accounts) accounts.delete(accounts.keys().next().value ?? "");
      return granted;
    },
  };
}
