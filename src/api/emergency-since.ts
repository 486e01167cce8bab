// Whether an emergency has come between: whoever has decided something before it finds another filesystem than it thought of. Pure.
import type { FilesystemLayout } from "./filesystem-layout.ts";

/** Whether an emergency came last, after that was decided: it ends whatever was going on. */
export function isEmergencySince({ status }: FilesystemLayout, decidedAt: string): boolean {
  const last = status?.lastOperation;
  return last?.emergency === true && Date.parse(last.startedAt) > Date.parse(decidedAt);
}
