// When a status is worth a write of the layout. Pure. What is on its way for a moment most often comes with something that lasts: an extend
// changes its layout three times, and waits for its member in between.
import { isDeepStrictEqual } from "node:util";
import type {
  FilesystemLayout,
  FilesystemLayoutSpec,
  FilesystemLayoutStatus,
} from "../../contracts/kinds/filesystem-layout.ts";
import { parseQuantity } from "../../contracts/quantities/quantity.ts";
import type { Condition } from "../../contracts/schema/schema.ts";
import { shows } from "../../platform/kube/client/writes.ts";

/** "WithNext": nothing waits for it, and it goes with whatever is reported next. */
export type WhenToReport = "Now" | "Later" | "WithNext";

/** What this process has seen of a layout since it reported on it. */
export interface SeenLayout {
  /** That of the last report. */
  readonly reportedGeneration: number | undefined;
  /** As last seen. */
  readonly generation: number | undefined;
  readonly spec: FilesystemLayoutSpec;
}

/** `seen`: undefined where this process has reported nothing of it yet. `wanted`: what is to be said of that layout. */
export function whenToReport(
  seen: SeenLayout | undefined,
  { metadata, spec, status: said }: FilesystemLayout,
  wanted: FilesystemLayoutStatus,
): WhenToReport {
  if (said === undefined) return "Now";
  if (isSame(withoutGeneration(said), withoutGeneration(wanted))) {
    if (said.observedGeneration === wanted.observedGeneration) return "Now";
    const isOfSaid = seen !== undefined && seen.reportedGeneration === said.observedGeneration;
    return isOfSaid && onlyGrantsMore(seen, { generation: metadata.generation, spec }) ? "WithNext" : "Later";
  }
  const waits = isWaiting(wanted) && (isWaiting(said) || reconcilingOf(said)?.status === "False");
  return isSame(lasting(said, waits), lasting(wanted, waits)) ? "Later" : "Now";
}

function isSame(a: object, b: object): boolean {
  return shows(a, b) && shows(b, a);
}

/**
 * A grant that is lowered or taken back is reported as seen: until then what it gave counts as promised (namespace-promises.ts). That holds of
 * one between two looks, too: a generation that was not seen may have been larger.
 */
function onlyGrantsMore(
  seen: Pick<SeenLayout, "generation" | "spec">,
  { generation, spec }: Pick<SeenLayout, "generation" | "spec">,
): boolean {
  const { emergency: before, ...specBefore } = seen.spec;
  const { emergency: now, ...specNow } = spec;
  const missed = (generation ?? Number.NaN) - (seen.generation ?? Number.NaN) - 1;
  if (missed > 0 || Number.isNaN(missed)) return false;
  if (now === undefined || !isDeepStrictEqual(specBefore, specNow)) return false;
  return before === undefined || (parseQuantity(now.size) >= parseQuantity(before.size) && now.epoch >= before.epoch);
}

/** For a member, and no operation runs. */
function isWaiting(status: FilesystemLayoutStatus): boolean {
  const reconciling = reconcilingOf(status);
  return reconciling?.status === "True" && reconciling.reason === "WaitingForMember";
}

function reconcilingOf({ conditions }: FilesystemLayoutStatus): Condition | undefined {
  return conditions?.find(({ type }) => type === "Reconciling");
}

function withoutGeneration({ observedGeneration: _, conditions, ...status }: FilesystemLayoutStatus): object {
  return { ...status, conditions: conditions?.map(({ observedGeneration: _seen, ...condition }) => condition) };
}

/**
 * Without how much a member has allocated; that it has nothing, or does again, decides which one leaves. `waits`: without that one is waited for.
 * None leaves then, and it is the last one that was added whose first data has come.
 */
function lasting({ members, conditions, ...status }: FilesystemLayoutStatus, waits: boolean): object {
  return withoutGeneration({
    ...status,
    members: members?.map(({ allocated, ...member }) => ({
      ...member,
      allocated: allocated === "0" && !waits ? "0" : "1",
    })),
    conditions: waits ? conditions?.filter(({ type }) => type !== "Reconciling") : conditions,
  });
}
