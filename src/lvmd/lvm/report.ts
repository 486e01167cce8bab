// One report of LVM: all volume groups with their devices and volumes, by a single command, and as it will be after lvmd's own changes.
// Pure: arguments out, JSON in.
import { LvmError } from "./lvm-error.ts";

export interface ReportedVolume {
  readonly name: string;
  /** Of LVM; "" for a volume that lvmd has just made, until a report has it. */
  readonly uuid: string;
  readonly sizeBytes: number;
  readonly path: string;
  /** Absent: not active. */
  readonly device: DeviceNumber | undefined;
  readonly tags: readonly string[];
  /** lvs(8), "lv_attr". */
  readonly attr: string;
  /** The thin pool's name; "": it is in none. */
  readonly pool: string;
  /** The volume that it is a snapshot of; "": of none. */
  readonly origin: string;
  /** Both: NaN of a thin pool that is not active or has failed: LVM does not know. */
  readonly dataPercent: number;
  readonly metadataPercent: number;
  readonly metadataSizeBytes: number;
  /** Devices that its data is spread over in turn: its size is a multiple of as many extents. */
  readonly dataColumns: number;
  /** Of a thin pool: what it hands out at once; 0: another kind of volume. */
  readonly chunkBytes: number;
}

export interface DeviceNumber {
  readonly major: number;
  readonly minor: number;
}

export interface ReportedDevice {
  readonly path: string;
  readonly freeBytes: number;
}

export interface ReportedGroup {
  readonly name: string;
  readonly sizeBytes: number;
  readonly freeBytes: number;
  readonly extentBytes: number;
  /** vgs(8), "vg_attr". */
  readonly attr: string;
  readonly missingDevices: number;
  readonly devices: readonly ReportedDevice[];
  /** Thin pools among them. */
  readonly volumes: ReadonlyMap<string, ReportedVolume>;
}

export type Report = ReadonlyMap<string, ReportedGroup>;

const SECTIONS = {
  vg: ["vg_name", "vg_size", "vg_free", "vg_extent_size", "vg_attr", "vg_missing_pv_count"],
  pv: ["pv_name", "pv_free"],
  lv: [
    "lv_name",
    "lv_uuid",
    "lv_size",
    "origin_size",
    "lv_path",
    "lv_kernel_major",
    "lv_kernel_minor",
    "lv_tags",
    "lv_attr",
    "origin",
    "data_percent",
    "metadata_percent",
    "pool_lv",
    "lv_metadata_size",
  ],
  seg: ["lv_uuid", "data_stripes", "segtype", "chunk_size"],
  pvseg: ["pvseg_start"],
} as const;
/** What is the rule is left out: segments that are neither spread nor thin pools, and everything about segments of devices. */
const SELECTED: Readonly<Partial<Record<string, string>>> = {
  seg: "stripes>1 || segtype=thin-pool",
  pvseg: "pvseg_start<0",
};

/** Of the subcommand fullreport. */
export const REPORT_ARGUMENTS: readonly string[] = [
  ...["--reportformat", "json", "--units", "b", "--nosuffix"],
  ...Object.entries(SECTIONS).flatMap(([section, fields]) => {
    const selected = SELECTED[section];
    return ["--configreport", section, "-o", fields.join(","), ...(selected === undefined ? [] : ["-S", selected])];
  }),
];

type Row = Readonly<Record<string, unknown>>;

/** Throws LvmError "Unreadable". */
export function parseReport(json: string): Report {
  let parsed: unknown;
  try {
    parsed = JSON.parse(json);
  } catch (error) {
    throw new LvmError("Unreadable", `LVM's report is not JSON: ${(error as Error).message}`, error);
  }
  const groups = rowsOf(parsed, "report").flatMap((sections) =>
    rowsOf(sections, "vg").map((row) => groupOf(row, sections)),
  );
  return new Map(groups.map((group) => [group.name, group]));
}

/** Throws where a section is missing: without it a node would seem to have lost its groups. */
function rowsOf(sections: unknown, name: keyof typeof SECTIONS | "report"): readonly Row[] {
  const rows = isRow(sections) ? (sections[name] ?? (name === "report" ? undefined : [])) : undefined;
  if (Array.isArray(rows) && rows.every(isRow)) return rows;
  throw new LvmError("Unreadable", `LVM's report has no rows of ${name}`);
}

function isRow(value: unknown): value is Row {
  return typeof value === "object" && value !== null;
}

function groupOf(row: Row, sections: Row): ReportedGroup {
  const [pv, lv, seg] = [rowsOf(sections, "pv"), rowsOf(sections, "lv"), rowsOf(sections, "seg")];
  const segments = new Map(seg.map((segment) => [textOf(segment, "lv_uuid"), segment]));
  const volumes = lv.map((volume) => volumeOf(volume, segments.get(textOf(volume, "lv_uuid"))));
  return {
    name: textOf(row, "vg_name"),
    sizeBytes: countOf(row, "vg_size"),
    freeBytes: countOf(row, "vg_free"),
    extentBytes: countOf(row, "vg_extent_size"),
    attr: textOf(row, "vg_attr"),
    missingDevices: countOf(row, "vg_missing_pv_count"),
    devices: pv.map((device) => ({ path: textOf(device, "pv_name"), freeBytes: countOf(device, "pv_free") })),
    volumes: new Map(volumes.map((volume) => [volume.name, volume])),
  };
}

/** Copies are called stripes, too: of a mirror, and of RAID 1. */
function isSpread(segment: Row): boolean {
  return !["mirror", "raid1"].includes(textOf(segment, "segtype"));
}

function volumeOf(row: Row, segment: Row | undefined): ReportedVolume {
  // -1: not active.
  const isActive = textOf(row, "lv_kernel_major") !== "-1";
  const major = isActive ? countOf(row, "lv_kernel_major") : 0;
  const pool = textOf(row, "pool_lv");
  const originBytes = countOrNone(row, "origin_size");
  return {
    name: textOf(row, "lv_name"),
    uuid: textOf(row, "lv_uuid"),
    // The size of a thick snapshot is its origin's; lv_size is what it may take for changes.
    sizeBytes: pool === "" && originBytes > 0 && textOf(row, "origin") !== "" ? originBytes : countOf(row, "lv_size"),
    path: textOf(row, "lv_path"),
    device: major > 0 ? { major, minor: countOf(row, "lv_kernel_minor") } : undefined,
    tags: textOf(row, "lv_tags").split(",").filter(Boolean),
    attr: textOf(row, "lv_attr"),
    pool,
    origin: textOf(row, "origin"),
    dataPercent: percentOf(row, "data_percent"),
    metadataPercent: percentOf(row, "metadata_percent"),
    metadataSizeBytes: countOrNone(row, "lv_metadata_size"),
    dataColumns: segment !== undefined && isSpread(segment) ? countOf(segment, "data_stripes") : 1,
    chunkBytes:
      segment !== undefined && textOf(segment, "segtype") === "thin-pool" ? countOf(segment, "chunk_size") : 0,
  };
}

/** 0 for a volume without such a figure. A thin pool without one has NaN, never 0. */
function percentOf(row: Row, field: string): number {
  const text = row[field] === undefined ? "" : textOf(row, field);
  if (text === "") return textOf(row, "lv_attr").startsWith("t") ? Number.NaN : 0;
  if (PERCENT.test(text) && Number(text) <= 100) return Number(text);
  throw new LvmError("Unreadable", `LVM reports "${text}" as ${field}`);
}

function textOf(row: Row, field: string): string {
  const value = row[field];
  if (typeof value !== "string") throw new LvmError("Unreadable", `LVM's report lacks ${field}`);
  return value;
}

function countOf(row: Row, field: string): number {
  const text = textOf(row, field);
  const count = Number(text);
  if (!COUNT.test(text) || !Number.isSafeInteger(count))
    throw new LvmError("Unreadable", `LVM reports "${text}" as ${field}`);
  return count;
}

/** Of a volume that has no such figure 0. */
function countOrNone(row: Row, field: string): number {
  return (row[field] ?? "") === "" ? 0 : countOf(row, field);
}

const COUNT = /^\d+$/;
const PERCENT = /^\d+(\.\d+)?$/;

/** lvs(8): the eighth character of lv_attr, "z". */
export function zeroes({ attr }: Pick<ReportedVolume, "attr">): boolean {
  return attr.charAt(7) === "z";
}

/** lvs(8): the fifth character of lv_attr. One that has failed is active; of one under active volumes LVM says no, and how full it is. */
export function isInactive({ attr, dataPercent }: Pick<ReportedVolume, "attr" | "dataPercent">): boolean {
  return attr.charAt(4) === "-" && Number.isNaN(dataPercent);
}

// What lvmd itself has done to a group, put into the last report without asking LVM again. The next report corrects the prediction. Pure
// but for the report that it holds.

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

/** The last report, with the changes that lvmd made since it asked LVM for it. */
interface PredictedReport {
  /** Undefined: there was none yet. */
  latest(): Report | undefined;
  note(change: OwnChange): void;
  /** Takes what `ask` reports in place of the last one; throws what it throws. Not to be called twice at once. */
  renew(ask: () => Promise<Report>): Promise<Report>;
}

export function createPredictedReport(): PredictedReport {
  let latest: Report | undefined;
  /** Undefined: LVM is not asked now. */
  let since: OwnChange[] | undefined;
  return {
    latest: () => latest,
    note: (change) => {
      since?.push(change);
      if (latest !== undefined) latest = withOwnChange(latest, change);
    },
    renew: async (ask) => {
      const meanwhile: OwnChange[] = [];
      since = meanwhile;
      try {
        latest = meanwhile.reduce(withOwnChange, await ask());
        return latest;
      } finally {
        since = undefined;
      }
    },
  };
}
