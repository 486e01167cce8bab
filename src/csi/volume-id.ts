// The volume id of a request. Its syntax is that of src/api/identity.ts and nothing else is ever looked up, written down or
// made a path of: an id with "../" in it names no volume. Pure.
import { volumeUIDOf } from "../api/identity.ts";
import { invalidArgument, Refusal } from "./refusal.ts";

/** As CSI limits strings: more of an id that is none is not repeated in messages and logs. */
const SHOWN_LIMIT_CHARACTERS = 128;

/** The handle, or why a call that needs an existing volume cannot be answered. */
export function handleOf(volumeId: string): string | Refusal {
  if (volumeId === "") return invalidArgument("the volume id is missing");
  if (volumeUIDOf(volumeId) === undefined)
    return noVolume(volumeId, "it is not a volume handle of Tidemark (fs- and a UUID in lower case)");
  return volumeId;
}

export function noVolume(volumeId: string, why: string): Refusal {
  return new Refusal("NOT_FOUND", `there is no volume "${shownVolumeId(volumeId)}": ${why}`);
}

export function shownVolumeId(volumeId: string): string {
  return volumeId.length <= SHOWN_LIMIT_CHARACTERS ? volumeId : `${volumeId.slice(0, SHOWN_LIMIT_CHARACTERS)}…`;
}
