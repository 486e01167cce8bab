// Lets go of members that are out of the filesystem, past the point of no return (R5, R6). What a member is recorded with is read from
// the API server right before, and how many members there ever were is kept first.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout, type MemberSpec } from "../../api/filesystem-layout.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import { isOut } from "../volume/layout-facts.ts";
import { keepCount } from "./member-count.ts";
import { tearDownMember } from "./tear-down-member.ts";

export interface Departure {
  /** Names of members of which nothing is left. */
  readonly gone: ReadonlySet<string>;
  /** What the others wait for. */
  readonly waiting: readonly string[];
}

/** One pass over all of them. Throws KubeError. */
export async function removeDeparted(client: KubeClient, layout: FilesystemLayout): Promise<Departure> {
  const gone = new Set<string>();
  const waiting: string[] = [];
  for (const { name } of departed(layout)) {
    const left = await removeMember(client, layout, name);
    if (left === undefined) gone.add(name);
    else waiting.push(`member ${name}: ${left}`);
  }
  return { gone, waiting };
}

function departed(layout: FilesystemLayout): MemberSpec[] {
  return (layout.spec.members ?? []).filter((member) => isOut(layout, member));
}

async function removeMember(client: KubeClient, layout: FilesystemLayout, name: string): Promise<string | undefined> {
  const live = await client.get(FILESYSTEM_LAYOUTS, { name: layout.metadata.name });
  if (live === undefined || live.metadata.uid !== layout.metadata.uid) return "the layout to be seen as it is";
  const still = departed(live).find((member) => member.name === name);
  if (still === undefined || live.spec.volumeUID === undefined) return "the layout to be seen as it is";
  const { uid, volumeHandle } = still.source.claim ?? {};
  try {
    await keepCount(client, live);
    return await tearDownMember(client, {
      handle: live.metadata.name,
      volumeUID: live.spec.volumeUID,
      name,
      claimUID: uid,
      volumeHandle,
    });
  } catch (error) {
    // The claim or its volume changed between reading and writing: the change itself brings the next pass.
    if (isKubeError(error, "Conflict")) return "its claim to be seen as it is";
    throw error;
  }
}
