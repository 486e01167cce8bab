// How lvcreate's options lay a volume over devices, hence how much of a group a volume takes and how large one can still be. Pure.
import type { DeviceClass } from "../settings/settings.ts";

export interface Columns {
  /** Areas of equal size, each on a device of its own. */
  readonly all: number;
  /** Those of them that hold data; the others are copies and parity. */
  readonly data: number;
  /** Each area stays apart from the others' devices for good (RAID, mirror); of stripes only those side by side do. */
  readonly apart: boolean;
}

export const LINEAR: Columns = { all: 1, data: 1, apart: false };

/** Of a class' own options, or of an option class', which replace them. */
export function columnsOf(
  { stripe, lvcreateOptions }: Pick<DeviceClass, "stripe" | "lvcreateOptions">,
  options: readonly string[] | undefined,
): Columns {
  const chosen = options ?? lvcreateOptions;
  const stripes = countOption(chosen, "i", "stripes") ?? (options === undefined ? stripe : undefined);
  const mirrors = countOption(chosen, "m", "mirrors");
  const type = option(chosen, undefined, "type") ?? typeOf(stripes ?? 1, mirrors ?? 0);
  return columnsOfType(type, stripes, mirrors);
}

/** What is not said is lvmraid(7)'s default. */
function columnsOfType(type: string, stripes: number | undefined, mirrors: number | undefined): Columns {
  if (/^raid[45]/.test(type)) return parity(stripes ?? 2, 1);
  if (type.startsWith("raid6")) return parity(stripes ?? 3, 2);
  if (type.startsWith("raid10")) return copies(stripes ?? 2, mirrors ?? 1);
  if (type === "raid1" || type === "mirror") return copies(1, mirrors ?? 1);
  if (type.startsWith("raid0")) return { all: stripes ?? 2, data: stripes ?? 2, apart: true };
  return stripes === undefined || stripes === 1 ? LINEAR : { all: stripes, data: stripes, apart: false };
}

function typeOf(stripes: number, mirrors: number): string {
  if (mirrors === 0) return "striped";
  return stripes > 1 ? "raid10" : "raid1";
}

function parity(data: number, more: number): Columns {
  return { all: data + more, data, apart: true };
}

function copies(data: number, mirrors: number): Columns {
  return { all: data * (mirrors + 1), data, apart: mirrors > 0 };
}

function countOption(options: readonly string[], short: string, long: string): number | undefined {
  const text = option(options, short, long);
  const count = Number(text);
  return text !== undefined && Number.isInteger(count) && count >= 0 ? count : undefined;
}

/** As getopt reads them: "--type raid1", "--type=raid1", "-m 1", "-m1"; the last one counts. */
function option(options: readonly string[], short: string | undefined, long: string): string | undefined {
  let found: string | undefined;
  options.forEach((text, index) => {
    if (text === `--${long}` || text === `-${short}`) found = options[index + 1];
    else if (text.startsWith(`--${long}=`)) found = text.slice(long.length + 3);
    else if (short !== undefined && text.startsWith(`-${short}`) && !text.startsWith("--")) found = text.slice(2);
  });
  return found;
}
