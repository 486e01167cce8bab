// Looks at all volumes of the node's classes, after lvmd has told a change: those whose size is not as told are looked at, and those that
// nobody names are reported.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { LogicalVolume } from "../../api/logical-volume.ts";
import { API_VERSION } from "../../api/names.ts";
import { NODE_STORAGES } from "../../api/node-storage.ts";
import type { LogicalVolume as ListedVolume } from "../../gen/topolvm/lvmd.ts";
import type { EventRecorder } from "../../kube/events/events.ts";
import type { Logger } from "../../process/log.ts";
import { parseQuantity } from "../../units/quantity.ts";
import type { DeviceClasses } from "../lvmd-client/follow-classes.ts";
import type { LvmdCalls } from "../lvmd-client/lvmd-calls.ts";
import { orphansAmong } from "./find-orphans.ts";

export interface ListingParts {
  readonly nodeName: string;
  readonly lvmd: Pick<LvmdCalls, "volumes">;
  readonly classes: DeviceClasses;
  /** Of the whole cluster. */
  readonly objects: () => readonly LogicalVolume[];
  readonly layouts: () => readonly FilesystemLayout[];
  readonly changed: (name: string) => void;
  readonly events: EventRecorder;
  readonly log: Logger;
}

export interface VolumeListing {
  /** One look. Rejects with LvmdError. */
  look(): Promise<void>;
  /** By device class, as last seen. */
  orphanCounts(): ReadonlyMap<string, number>;
}

export function createVolumeListing(parts: ListingParts): VolumeListing {
  let counts = new Map<string, number>();
  let reported = new Set<string>();
  return {
    look: async () => {
      const present = new Map<string, number>();
      const seen = new Set<string>();
      for (const { name: deviceClass, problem } of parts.classes.list() ?? []) {
        if (problem !== "") continue;
        const listed = await parts.lvmd.volumes(deviceClass);
        for (const name of resizedAmong(parts, deviceClass, listed)) parts.changed(name);
        const orphans = orphansAmong(listed, parts.objects(), parts.layouts());
        present.set(deviceClass, orphans.length);
        for (const { name } of orphans) {
          seen.add(name);
          if (!reported.has(name)) report(parts, deviceClass, name);
        }
      }
      [counts, reported] = [present, seen];
    },
    orphanCounts: () => counts,
  };
}

function resizedAmong(
  { nodeName, objects }: ListingParts,
  deviceClass: string,
  listed: readonly ListedVolume[],
): string[] {
  const sizes = new Map(listed.map(({ name, sizeBytes }) => [name, sizeBytes]));
  return objects()
    .filter(({ spec }) => spec.nodeName === nodeName && spec.deviceClass === deviceClass)
    .filter(({ status }) => {
      const sizeBytes = sizes.get(status?.volumeID ?? "");
      return (
        sizeBytes !== undefined && status?.currentSize !== undefined && parseQuantity(status.currentSize) !== sizeBytes
      );
    })
    .map(({ metadata }) => metadata.name);
}

function report({ nodeName, objects, events, log }: ListingParts, deviceClass: string, volumeID: string): void {
  const begunFor = objects().find(({ metadata }) => metadata.uid === volumeID);
  const subject = `logical volume ${volumeID} of device class ${deviceClass} on node ${nodeName}`;
  const message =
    begunFor === undefined
      ? `${subject} has Tidemark's tags, and no LogicalVolume and no FilesystemLayout names it; it is left as it is. lvs -o +tags shows ` +
        "whose it was: bring its objects back, or remove it by hand"
      : `${subject} is half made, and is left as it is: LogicalVolume ${begunFor.metadata.name} was given up ` +
        `(${begunFor.status?.message ?? "it does not say why"}). Remove it by hand: no FilesystemLayout has it`;
  log.warn({ deviceClass, volumeID }, message);
  const node = { apiVersion: API_VERSION, kind: NODE_STORAGES.kind, metadata: { name: nodeName } };
  events.record(node, "Warning", "LogicalVolumeOrphaned", message);
}
