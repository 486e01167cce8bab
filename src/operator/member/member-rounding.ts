// What is known of a class whose driver makes members larger than it was asked for. One that is too large is of no use where a smaller member
// was wanted, and would be ordered again and again. So it is remembered for a while, for the class, as what is known of its growth is
// (member-growth.ts). Pure.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { MEMBER_ROUNDED_ANNOTATION } from "../../api/names.ts";
import { formatBytes, formatQuantity, readQuantity } from "../../units/quantity.ts";
import { GROWTH_MEMORY_MS, layoutsOfClass, rememberedMs } from "./member-growth.ts";

export interface Rounding {
  readonly askedBytes: number;
  readonly gotBytes: number;
}

/** The annotation's text. */
export function roundingText({ askedBytes, gotBytes }: Rounding, atMs: number): string {
  return `${new Date(atMs).toISOString()} ${formatQuantity(askedBytes)} ${formatQuantity(gotBytes)}`;
}

/** By all layouts of the class. What cannot be read says nothing. */
export function classRoundings(layouts: readonly FilesystemLayout[], className: string, nowMs: number): Rounding[] {
  return layoutsOfClass(layouts, className).flatMap((layout) => {
    const atMs = rememberedMs(layout, MEMBER_ROUNDED_ANNOTATION, nowMs);
    const [, asked, got] = (layout.metadata.annotations?.[MEMBER_ROUNDED_ANNOTATION] ?? "").split(" ");
    const [askedBytes, gotBytes] = [readQuantity(asked), readQuantity(got)];
    const isKnown = askedBytes !== undefined && gotBytes !== undefined && nowMs < atMs + GROWTH_MEMORY_MS;
    return isKnown ? [{ askedBytes, gotBytes }] : [];
  });
}

/** What the class makes at least where so much is asked for: no less than where less was. */
export function expectedBytes(roundings: readonly Rounding[], askedBytes: number): number {
  const known = roundings.filter((rounding) => rounding.askedBytes <= askedBytes);
  return Math.max(askedBytes, ...known.map(({ gotBytes }) => gotBytes));
}

/** For people. */
export function roundingMessage(className: string, { askedBytes, gotBytes }: Rounding): string {
  return `class ${className} has lately made members of ${formatBytes(gotBytes)} or more where ${formatBytes(askedBytes)} were asked for`;
}
