// All that the driver knows, as files in the directory that its parts share: of each volume its record, its image (whose size is
// the volume's), to which node it is attached (written by the controller) and which node has claimed it to stage it (written by
// that node). Each file appears whole, and those that only one may have appear for one alone, whichever processes race.

import { randomUUID } from "node:crypto";
import {
  closeSync,
  existsSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { GrowthManner } from "./growth-manner.ts";
import type { Segments } from "./topology.ts";

export interface VolumeRecord {
  readonly volumeId: string;
  /** CreateVolume's. */
  readonly name: string;
  /** Absent: reachable from everywhere. */
  readonly segments?: Segments | undefined;
  /** How its device takes an expansion; absent: promptly. */
  readonly growth?: GrowthManner | undefined;
}

export interface Attachment {
  readonly node: string;
  readonly readOnly: boolean;
  /** Of this very attachment: the publish context carries it to the node. */
  readonly token: string;
}

export interface Claim {
  readonly node: string;
  readonly stagingPath: string;
  readonly block: boolean;
  readonly fsType: string;
}

export interface KnownNode {
  readonly name: string;
  readonly segments?: Segments | undefined;
}

/** A name of anything else is no volume's, and never becomes a path. */
export const VOLUME_ID = /^vol-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export type VolumeFiles = ReturnType<typeof createVolumeFiles>;

export function createVolumeFiles(directory: string) {
  const nodesDirectory = join(directory, "nodes");
  mkdirSync(nodesDirectory, { recursive: true });
  const pathOf = (volumeId: string, suffix: string): string => join(directory, `${volumeId}.${suffix}`);
  const imagePath = (volumeId: string): string => pathOf(volumeId, "img");
  const recordOf = (volumeId: string): VolumeRecord | undefined =>
    VOLUME_ID.test(volumeId) ? readJson<VolumeRecord>(pathOf(volumeId, "volume.json")) : undefined;
  return {
    imagePath,
    volume: recordOf,
    volumes: (): VolumeRecord[] =>
      readdirSync(directory)
        .filter((file) => file.endsWith(".volume.json"))
        .sort()
        .flatMap((file) => recordOf(file.slice(0, -".volume.json".length)) ?? []),
    add: (record: VolumeRecord, sizeBytes: number): void => {
      closeSync(openSync(imagePath(record.volumeId), "wx", 0o600));
      truncateSync(imagePath(record.volumeId), sizeBytes);
      writeWhole(pathOf(record.volumeId, "volume.json"), record);
    },
    /** The record last: what a crash leaves can be deleted once more. */
    remove: (volumeId: string): void => {
      for (const suffix of ["img", "volume.json"]) rmSync(pathOf(volumeId, suffix), { force: true });
    },
    /** Undefined: the image is gone. */
    sizeBytes: (volumeId: string): number | undefined => statSync(imagePath(volumeId), { throwIfNoEntry: false })?.size,
    grow: (volumeId: string, sizeBytes: number): void => truncateSync(imagePath(volumeId), sizeBytes),

    attachment: (volumeId: string) => readJson<Attachment>(pathOf(volumeId, "attachment.json")),
    /** The one that holds: the given one, unless there was one. */
    attach: (volumeId: string, attachment: Attachment): Attachment =>
      writeOnce(pathOf(volumeId, "attachment.json"), attachment),
    detach: (volumeId: string): void => rmSync(pathOf(volumeId, "attachment.json"), { force: true }),

    claimOf: (volumeId: string) => readJson<Claim>(pathOf(volumeId, "claim.json")),
    /** The one that holds: the given one, unless there was one. */
    claim: (volumeId: string, claim: Claim): Claim => writeOnce(pathOf(volumeId, "claim.json"), claim),
    unclaim: (volumeId: string): void => rmSync(pathOf(volumeId, "claim.json"), { force: true }),

    addNode: (node: KnownNode): void => writeWhole(join(nodesDirectory, `${node.name}.json`), node),
    nodes: (): KnownNode[] =>
      readdirSync(nodesDirectory)
        .filter((file) => file.endsWith(".json"))
        .sort()
        .flatMap((file) => readJson<KnownNode>(join(nodesDirectory, file)) ?? []),
  };
}

function readJson<T>(path: string): T | undefined {
  if (!existsSync(path)) return undefined;
  try {
    return JSON.parse(readFileSync(path, "utf8")) as T;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined; // removed meanwhile
    throw error;
  }
}

function writeWhole(path: string, content: object): void {
  renameSync(temporary(path, content), path);
}

function writeOnce<T extends object>(path: string, content: T): T {
  const written = temporary(path, content);
  try {
    linkSync(written, path);
    return content;
  } catch (error) {
    const present = readJson<T>(path);
    if ((error as NodeJS.ErrnoException).code !== "EEXIST" || present === undefined) throw error;
    return present;
  } finally {
    rmSync(written);
  }
}

function temporary(path: string, content: object): string {
  const written = `${path}.${randomUUID()}`;
  writeFileSync(written, JSON.stringify(content));
  return written;
}
