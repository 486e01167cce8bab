// What becomes of the members in the layout once they were tended: their sources, the states that their node has settled, and what is
// remembered of their growth, in one write at most.
import { isDeepStrictEqual } from "node:util";
import type { ClaimSource, FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { departedMembers, isRemoving } from "../volume/layout-facts.ts";
import type { GrowthRecord } from "../volume/layout-fields.ts";
import type { LayoutWriter } from "../volume/layout-writer.ts";
import { withoutEndedMark } from "./decide-replacement.ts";
import { withRefusal } from "./refused-members.ts";
import { settledState } from "./settled-state.ts";

/**
 * `gone`: names of members of which nothing is left. Returns the members that had left before, and that it took from those that are to be in
 * the filesystem. Idempotent; throws KubeError.
 */
export async function recordSources(
  layouts: LayoutWriter,
  layout: FilesystemLayout,
  sources: ReadonlyMap<string, ClaimSource>,
  gone: ReadonlySet<string>,
  growthNews: (current: FilesystemLayout) => GrowthRecord | undefined,
): Promise<readonly MemberSpec[]> {
  let left: readonly MemberSpec[] = [];
  await layouts.update("member/record-sources", layout, (current) => {
    left = [];
    // Decided on that very specification: unpublished and published meanwhile, to whatever node, it is decided again.
    const isSame =
      current.metadata.uid === layout.metadata.uid && current.metadata.generation === layout.metadata.generation;
    if (!isSame || isRemoving(current)) return undefined;
    const before = current.spec.members ?? [];
    const members = before
      .filter(({ name, state }) => !(state === "Removed" && gone.has(name)))
      .map((named) => {
        const member = withRefusal(current, named);
        const source = sources.get(member.name);
        const state = settledState(current, member);
        return {
          ...withoutEndedMark(current, member),
          ...(state === undefined ? {} : { state }),
          ...(source === undefined ? {} : { source: { claim: source } }),
        };
      });
    const growth = growthNews(current);
    left = departedMembers(current);
    if (growth === undefined) return isDeepStrictEqual(members, before) ? undefined : { members };
    return { members, growth };
  });
  return left;
}

/** For the Event. What its volume is, as far as the layout says it. */
export function departureMessage({ name, source }: MemberSpec): string {
  const { driver, volumeHandle } = source.claim ?? {};
  const volume =
    volumeHandle === undefined ? "" : ` (volume ${volumeHandle}${driver === undefined ? "" : ` of driver ${driver}`})`;
  return `member ${name}${volume} has left the filesystem: the layout, which named it still, is corrected, and its volume goes`;
}
