// How many Events one object may cause.
import { type Budget, createBudget } from "../../process/budget.ts";

/** Events on one object at once. */
export const EVENT_BURST_LIMIT = 25;
/** And then one each. */
export const EVENT_INTERVAL_MS = 60_000;
const OBJECTS_LIMIT = 10_000;

/** Accounts are objects' keys. */
export function createEventBudget(): Budget {
  return createBudget({ burst: EVENT_BURST_LIMIT, intervalMs: EVENT_INTERVAL_MS, accounts: OBJECTS_LIMIT });
}
