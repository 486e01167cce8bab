// What operations on volumes work with, of which only the report is there: for tests of what is refused before anything is done.
import { createGroupQueues } from "../../../src/lvmd/lvm/lvm.ts";
import type { Report, ReportedGroup } from "../../../src/lvmd/lvm/report.ts";
import type { DeviceClass, Settings } from "../../../src/lvmd/settings/settings.ts";
import { createReductionsUnderWay } from "../../../src/lvmd/volumes/reduce/reductions.ts";
import type { VolumeHost } from "../../../src/lvmd/volumes/volume-host.ts";

/** Nothing may be asked of LVM but reports. */
export function hostWithReport(pointed: DeviceClass, groups: readonly ReportedGroup[]): VolumeHost {
  const report: Report = new Map(groups.map((group) => [group.name, group]));
  const never = (): never => {
    throw new Error("nothing is to be done");
  };
  const settings = { deviceClasses: [pointed], optionClasses: [] } as Partial<Settings> as Settings;
  return {
    settings: () => settings,
    lvm: { run: never, query: never },
    queues: createGroupQueues(),
    reports: { latest: () => report, fresh: async () => report } as VolumeHost["reports"],
    reductions: createReductionsUnderWay(),
    poolProblems: new Map(),
    waitingTags: new Map(),
    commands: { run: never, query: never } as Partial<VolumeHost["commands"]> as VolumeHost["commands"],
    files: {} as VolumeHost["files"],
    log: {} as VolumeHost["log"],
  };
}
