// What an object of a member lacks of its claim's labels and annotations, or has too much. Pure. Only the keys of the allow-list are looked
// at; one that the claim has no more goes from the member, too.
import type { KubeObject } from "../../kube/object.ts";
import type { CarriedKeys } from "./carried-keys.ts";

type Texts = Readonly<Record<string, string>>;
type Marked = Pick<KubeObject, "metadata">;

export interface Marks {
  readonly labels: Record<string, string>;
  readonly annotations: Record<string, string>;
}

/** What a new object of a member begins with. */
export function marksOf(carried: CarriedKeys, { metadata }: Marked): Marks {
  return {
    labels: chosen(metadata.labels, carried.labels),
    annotations: chosen(metadata.annotations, carried.annotations),
  };
}

/** A merge patch of the member's metadata; null takes a key away. Undefined: it carries what it is to carry. */
export function decideMarks(carried: CarriedKeys, claim: Marked, { metadata }: Marked): object | undefined {
  const labels = changes(carried.labels, claim.metadata.labels, metadata.labels);
  const annotations = changes(carried.annotations, claim.metadata.annotations, metadata.annotations);
  if (labels === undefined && annotations === undefined) return undefined;
  return { ...(labels && { labels }), ...(annotations && { annotations }) };
}

function chosen(texts: Texts = {}, keys: readonly string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).filter(([key]) => keys.includes(key)));
}

function changes(
  keys: readonly string[],
  wanted: Texts = {},
  is: Texts = {},
): Record<string, string | null> | undefined {
  const different = keys.filter((key) => wanted[key] !== is[key]);
  return different.length === 0 ? undefined : Object.fromEntries(different.map((key) => [key, wanted[key] ?? null]));
}
