// What LVM takes as a name and as a tag (lvm(8), "VALID NAMES", "TAGS"): refused here, before LVM could read one as an option. Pure.
import { WIPE_BEGUN_TAG } from "../../api/names.ts";
import { invalidArgument, type Refusal } from "../../csi/refusal.ts";

const NAME_LIMIT_CHARACTERS = 127;
const TAG_LIMIT_CHARACTERS = 1024;
const SHOWN_LIMIT_CHARACTERS = 64;

/** Never begins with "-": LVM would take it for an option. */
export const LVM_NAME = /^(?!\.\.?$)[A-Za-z0-9+_.][A-Za-z0-9+_.-]{0,126}$/;
const TAG = /^[A-Za-z0-9_+.][A-Za-z0-9_+.\-/=!:&#]*$/;
/** LVM keeps them for itself. */
const RESERVED =
  /^(snapshot|pvmove)|_(cdata|cmeta|corig|imeta|iorig|mimage|mlog|pmspare|rimage|rmeta|tdata|tmeta|vdata|vorigin)/;

/** Why this can be no volume's name. */
export function refuseVolumeName(name: string): Refusal | undefined {
  if (!LVM_NAME.test(name))
    return invalidArgument(
      `${shown(name)} is no name for a volume: 1 to ${NAME_LIMIT_CHARACTERS} letters, digits and + _ . -, no "-" first`,
    );
  if (RESERVED.test(name)) return invalidArgument(`${shown(name)} is no name for a volume: LVM keeps it for itself`);
  return undefined;
}

export function refuseTags(tags: readonly string[]): Refusal | undefined {
  if (tags.includes(WIPE_BEGUN_TAG)) return invalidArgument(`the tag ${WIPE_BEGUN_TAG} is lvmd's own`);
  const wrong = tags.find((tag) => tag.length > TAG_LIMIT_CHARACTERS || !TAG.test(tag));
  if (wrong === undefined) return undefined;
  return invalidArgument(
    `${shown(wrong)} is no tag: 1 to ${TAG_LIMIT_CHARACTERS} letters, digits and _ + . - / = ! : & #, no "-" first`,
  );
}

function shown(text: string): string {
  const part = text.length > SHOWN_LIMIT_CHARACTERS ? `${text.slice(0, SHOWN_LIMIT_CHARACTERS)}…` : text;
  return JSON.stringify(part);
}
