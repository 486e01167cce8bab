// Sees when a class ceases to grow members, and when it grows them again: all volumes of the class say so, and only the one that remembers
// it has changed. A memory that merely becomes newer is passed over, so that many volumes that fail one after another cost one look at each.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { GROWTH_FAILED_ANNOTATION, GROWTH_WORKED_ANNOTATION } from "../../api/names.ts";
import type { Reflector } from "../../kube/cache/reflector.ts";
import type { Clock } from "../../process/clock.ts";
import { classFailure } from "../member/member-growth.ts";
import { rulesOfRecords } from "../member/member-rules.ts";

const REMEMBERED = [GROWTH_FAILED_ANNOTATION, GROWTH_WORKED_ANNOTATION];

/** Values of the layouts' index "member-class". */
export function memberClassOf({ spec, metadata }: FilesystemLayout): string[] {
  const rules = spec.backend === "span" ? rulesOfRecords(metadata.annotations) : undefined;
  return rules === undefined ? [] : [rules.className];
}

/**
 * Calls `changed` with the handle of each volume of such a class. That the time of a failure is over is not seen here: each volume that
 * says a failure is looked at again by then.
 */
export function onClassGrowthChange(
  layouts: Pick<Reflector<FilesystemLayout>, "store" | "subscribe">,
  clock: Pick<Clock, "nowMs">,
  changed: (handle: string) => void,
): void {
  /** Classes that failed when they were looked at last, and until when that counts. */
  const failingUntilMs = new Map<string, number>();
  const look = (className: string): void => {
    const ofClass = layouts.store.byIndex("member-class", className);
    const nowMs = clock.nowMs();
    const failure = classFailure(ofClass, className, nowMs);
    const hasFailed = (failingUntilMs.get(className) ?? nowMs) > nowMs;
    if (failure === undefined) failingUntilMs.delete(className);
    else failingUntilMs.set(className, failure.untilMs);
    if (hasFailed === (failure !== undefined)) return;
    for (const { metadata } of ofClass) changed(metadata.name);
  };
  const lookAt = (layout: FilesystemLayout): void => {
    if (REMEMBERED.some((annotation) => valueOf(layout, annotation) !== undefined))
      for (const className of memberClassOf(layout)) look(className);
  };
  layouts.subscribe({
    added: lookAt,
    updated: (layout, before) => {
      if (REMEMBERED.some((annotation) => valueOf(layout, annotation) !== valueOf(before, annotation)))
        for (const className of memberClassOf(layout)) look(className);
    },
    deleted: lookAt,
  });
}

function valueOf({ metadata }: FilesystemLayout, annotation: string): string | undefined {
  return metadata.annotations?.[annotation];
}
