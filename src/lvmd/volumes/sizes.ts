// Sizes that callers ask for: refused or rounded before LVM sees them, and whether there is room. Pure.
import { invalidArgument, Refusal } from "../../contracts/csi/refusal.ts";
import type { ClassState } from "../classes/class-state.ts";
import { isInactive } from "../lvm/report.ts";

/** TopoLVM refuses other sizes; here they are rounded up to a multiple of it. */
const SECTOR_BYTES = 4096;

/** Throws a Refusal, INVALID_ARGUMENT. */
export function refuseSize(sizeBytes: number): void {
  if (Number.isSafeInteger(sizeBytes) && sizeBytes > 0) return;
  throw invalidArgument(`a size of ${sizeBytes} bytes cannot be: it is a whole number from 1`);
}

/** As it is written into LVM's arguments; LVM itself rounds up to whole extents. */
export function askedBytes(sizeBytes: number): number {
  return Math.ceil(sizeBytes / SECTOR_BYTES) * SECTOR_BYTES;
}

/** Throws a Refusal where the group cannot be changed at all, or has not this much room. */
export function refuseShortage(state: ClassState, neededBytes: number, roomBytes: number): void {
  const { deviceClass, group } = state;
  const broken = impairment(state);
  if (broken !== undefined) throw new Refusal("FAILED_PRECONDITION", broken);
  if (neededBytes <= roomBytes) return;
  throw new Refusal(
    "RESOURCE_EXHAUSTED",
    `device class ${deviceClass.name} has ${roomBytes} bytes left for a volume and ${neededBytes} are needed ` +
      `(volume group ${group.name}: ${group.freeBytes} bytes free, ${deviceClass.spareBytes} of them to spare)`,
  );
}

/** Why it is unknown what a thin pool has left. */
export function unreportedFill(
  { group, thin }: Pick<ClassState, "group" | "thin">,
  poolProblems: ReadonlyMap<string, string>,
): string | undefined {
  if (thin === undefined || !Number.isNaN(thin.pool.dataPercent + thin.pool.metadataPercent)) return undefined;
  const name = `${group.name}/${thin.pool.name}`;
  const unreported = `LVM does not report how full thin pool ${name} is (lv_attr ${thin.pool.attr})`;
  if (!isInactive(thin.pool))
    return `${unreported}: it has failed; see dmesg on the node, and lvmthin(7) on its repair`;
  const problem = poolProblems.get(name);
  if (problem !== undefined) return `${unreported}: it is not active, and could not be activated: ${problem}`;
  return `${unreported}: it is not active. lvmd activates it once, when it finds it so first; then "lvchange -a y -K ${name}" does`;
}

/** Why LVM would change nothing in this group. */
export function impairment({ group }: Pick<ClassState, "group">): string | undefined {
  const { name, missingDevices, attr } = group;
  if (missingDevices > 0)
    return `volume group ${name} lacks ${missingDevices} of its devices; LVM changes nothing in it before they are back`;
  if (attr.startsWith("r")) return `volume group ${name} is read-only`;
  if (attr.charAt(2) === "x") return `volume group ${name} is exported`;
  return undefined;
}
