// What lvmd does to a thin pool that is not as its volumes need it: one that does not zero what it hands out shows a tenant's data to the
// next one, and of one that is not active nobody can tell what it has left.
import { activationArguments } from "../lvm/arguments.ts";
import type { ReportedVolume } from "../lvm/report.ts";
import type { VolumeHost } from "../volumes/volume-host.ts";

/** lvs(8): the eighth character of lv_attr, "z". */
export function zeroes({ attr }: Pick<ReportedVolume, "attr">): boolean {
  return attr.charAt(7) === "z";
}

/** lvs(8): the fifth character of lv_attr. One that has failed is active; of one under active volumes LVM says no, and how full it is. */
export function isInactive({ attr, dataPercent }: Pick<ReportedVolume, "attr" | "dataPercent">): boolean {
  return attr.charAt(4) === "-" && Number.isNaN(dataPercent);
}

/**
 * In the group's turn. Whatever the pool was made with (lvmthin(7), "--zero"), from now on it zeroes; no volume is made in it, or given back
 * to it, before. Throws LvmError.
 */
export async function letPoolZero(host: VolumeHost, group: string, pool: ReportedVolume | undefined): Promise<void> {
  if (pool === undefined || zeroes(pool)) return;
  // It may have been done since the report: LVM fails where there is nothing to change.
  const now = await poolNow(host, group, pool.name);
  if (now === undefined || zeroes(now)) return;
  host.log.warn({ pool: `${group}/${pool.name}` }, "the thin pool did not zero what it hands out: it does from now on");
  await host.lvm.run("lvmd-pool/zero", "lvchange", ["-Z", "y", `${group}/${pool.name}`]);
  host.reports.expectChange();
}

/** In the group's turn; one that is active stays as it is. Throws LvmError. */
export async function activatePool(host: VolumeHost, group: string, pool: ReportedVolume): Promise<void> {
  const now = await poolNow(host, group, pool.name);
  if (now === undefined || !isInactive(now)) return;
  host.log.warn({ pool: `${group}/${pool.name}` }, "the thin pool was not active: it is activated");
  await host.lvm.run("lvmd-pool/activate", "lvchange", activationArguments(group, pool.name));
  host.reports.expectChange(); // LVM writes nothing that would tell of it
}

async function poolNow({ reports }: VolumeHost, group: string, name: string): Promise<ReportedVolume | undefined> {
  return (await reports.fresh()).get(group)?.volumes.get(name);
}
