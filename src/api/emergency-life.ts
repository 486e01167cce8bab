// How long an emergency grant lives. Its node counts from when it has read the grant, by its monotonic clock, and its engine renews it
// long before; `expiry` is the same in a date, for people, and for a node that cannot tell when it read the grant.

export const EMERGENCY_LIFE_MS = 24 * 3_600_000;
