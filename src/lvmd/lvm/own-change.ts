// What lvmd itself has done to a group, put into the last report without asking LVM again; the next report corrects what was
// predicted. Pure; the same change twice, or one that the report shows already, changes nothing.
import type { Report, ReportedGroup, ReportedVolume } from "./report.ts";

export type OwnChange =
  /** `takenBytes`: of the group. */
  | { readonly kind: "Created"; readonly group: string; readonly volume: ReportedVolume; readonly takenBytes: number }
  | {
      readonly kind: "Resized";
      readonly group: string;
      readonly name: string;
      readonly sizeBytes: number;
      readonly takenBytes: number;
    }
  | {
      readonly kind: "Tagged";
      readonly group: string;
      readonly name: string;
      readonly add: readonly string[];
      readonly remove: readonly string[];
    }
  | { readonly kind: "Removed"; readonly group: string; readonly name: string; readonly freedBytes: number };

export function withOwnChange(report: Report, change: OwnChange): Report {
  const group = report.get(change.group);
  const changed = group && changedGroup(group, change);
  return changed === undefined ? report : new Map(report).set(change.group, changed);
}

function changedGroup(group: ReportedGroup, change: OwnChange): ReportedGroup | undefined {
  const volumes = new Map(group.volumes);
  switch (change.kind) {
    case "Created":
      if (volumes.has(change.volume.name)) return undefined;
      volumes.set(change.volume.name, change.volume);
      return taking(group, volumes, change.takenBytes);
    case "Resized": {
      const volume = volumes.get(change.name);
      if (volume === undefined || volume.sizeBytes === change.sizeBytes) return undefined;
      volumes.set(change.name, { ...volume, sizeBytes: change.sizeBytes });
      return taking(group, volumes, change.takenBytes);
    }
    case "Tagged": {
      const volume = volumes.get(change.name);
      if (volume === undefined) return undefined;
      const tags = withTags(volume.tags, change);
      if (tags.join() === volume.tags.join()) return undefined;
      return { ...group, volumes: volumes.set(change.name, { ...volume, tags }) };
    }
    case "Removed":
      return volumes.delete(change.name) ? taking(group, volumes, -change.freedBytes) : undefined;
  }
}

export function withTags(
  present: readonly string[],
  { add, remove }: { readonly add: readonly string[]; readonly remove: readonly string[] },
): string[] {
  return [...new Set([...present, ...add])].filter((tag) => !remove.includes(tag));
}

/** From whichever devices it will have been: those with the most room first. */
function taking(group: ReportedGroup, volumes: ReadonlyMap<string, ReportedVolume>, takenBytes: number): ReportedGroup {
  const freeBytes = Math.max(0, group.freeBytes - takenBytes);
  let leftBytes = takenBytes;
  const devices = [...group.devices]
    .sort((one, other) => other.freeBytes - one.freeBytes)
    .map((device) => {
      const takenHere = Math.min(leftBytes, device.freeBytes);
      leftBytes -= takenHere;
      return { ...device, freeBytes: device.freeBytes - takenHere };
    });
  return { ...group, volumes, freeBytes, devices };
}
