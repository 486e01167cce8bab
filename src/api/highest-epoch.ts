// Who has written last: leaders are numbered, and whoever carries something out remembers the highest number. Pure.
import type { FilesystemLayout } from "./filesystem-layout.ts";

/** The highest epoch that the layout carries: a write under a lower one is a deposed leader's. */
export function highestEpoch({ spec, status }: FilesystemLayout): number {
  return Math.max(
    0,
    spec.target?.epoch ?? 0,
    spec.emergency?.epoch ?? 0,
    status?.epoch ?? 0,
    status?.operation?.epoch ?? 0,
    status?.lastOperation?.epoch ?? 0,
  );
}
