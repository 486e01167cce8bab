// A volume whose wipe has begun carries a tag, which LVM keeps with it and forgets with it: from then on it is no whole volume, and all
// that is done to it is its removal.
import { WIPE_BEGUN_TAG } from "../../api/names.ts";
import { Refusal } from "../../csi/refusal.ts";
import { tagArguments } from "../lvm/arguments.ts";
import type { ReportedVolume } from "../lvm/report.ts";
import type { VolumeHost } from "./volume-host.ts";

/** Written when it returns. */
export async function markWipe(host: VolumeHost, group: string, volume: ReportedVolume): Promise<void> {
  if (volume.tags.includes(WIPE_BEGUN_TAG)) return;
  await host.lanes.run(group, async () => {
    const args = [...tagArguments("--addtag", [WIPE_BEGUN_TAG]), `${group}/${volume.name}`];
    await host.lvm.run("lvmd-wipe/mark", "lvchange", args);
    host.reports.note({ kind: "Tagged", group, name: volume.name, add: [WIPE_BEGUN_TAG], remove: [] });
  });
}

export function refuseWiped(group: string, { name, tags }: Pick<ReportedVolume, "name" | "tags">): Refusal | undefined {
  if (!tags.includes(WIPE_BEGUN_TAG)) return undefined;
  return new Refusal(
    "FAILED_PRECONDITION",
    `the wipe of volume ${group}/${name} has begun: what was on it is not whole any more. Remove it`,
  );
}
