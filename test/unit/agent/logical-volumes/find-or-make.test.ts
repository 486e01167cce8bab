import { status } from "@grpc/grpc-js";
import { describe, expect, it } from "@jest/globals";
import { type FindOrMakeParts, findOrMake } from "../../../../src/agent/logical-volumes/find-or-make.ts";
import { type LvmdCalls, LvmdError } from "../../../../src/agent/lvmd-client/lvmd-calls.ts";
import type { Volume } from "../../../../src/contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import { snapshotIdOf, volumeHandleOf } from "../../../../src/contracts/identity.ts";
import type {
  LogicalVolume,
  LogicalVolumeSpec,
  LogicalVolumeStatus,
} from "../../../../src/contracts/kinds/logical-volume.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { createKeyedQueue } from "../../../../src/platform/process/async/keyed-queue.ts";
import { VOLUME_UID } from "../../../builders/filesystem-layout.ts";
import { doubleOf } from "../../../fakes/double-of.ts";
import { servedClient } from "../../../fakes/served-client.ts";

const SOURCE = volumeHandleOf("5a6b0f1e-0000-4000-8000-000000000001");
const [COPY, SNAPSHOT] = [volumeHandleOf(VOLUME_UID), snapshotIdOf(VOLUME_UID)];
const OF_SOURCE = { source: SOURCE, size: "2Gi" };

function objectOf(name: string, spec: Partial<LogicalVolumeSpec>, told?: LogicalVolumeStatus): LogicalVolume {
  return {
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "LogicalVolume",
    metadata: { name, uid: `uid-of-${name}` },
    spec: { nodeName: "node-a", deviceClass: "thin", size: "1Gi", ...spec },
    ...(told && { status: told }),
  };
}

function volumeOf(name: string, sizeBytes: number, attr: string): Volume {
  const identity = { name, uuid: "uuid", deviceClass: "thin", path: "", devMajor: 0, devMinor: 0, tags: [] };
  return { ...identity, sizeBytes, attr, thin: true, origin: "", dataPercent: 0, io: undefined };
}

/** An lvmd that has this volume, and finishes a snapshot as it is asked to. */
function partsWith(present: Volume, wanted: LogicalVolume): FindOrMakeParts & { readonly asked: string[] } {
  const asked: string[] = [];
  let volume = present;
  const source = objectOf(SOURCE, {}, { volumeID: "of-source", currentSize: "1Gi" });
  const lvmd = doubleOf<LvmdCalls>("LvmdCalls", {
    volume: async () => volume,
    create: async ({ name, sizeBytes }) => {
      if (sizeBytes === volume.sizeBytes) return sizeBytes;
      throw new LvmdError(status.ALREADY_EXISTS, "another volume of this name", `making volume ${name}`);
    },
    createSnapshot: async ({ name, sourceVolume, sizeBytes, accessType }) => {
      asked.push(`${name} of ${sourceVolume}`);
      if (sourceVolume !== "of-source") throw new LvmdError(status.NOT_FOUND, "no such volume", "a snapshot");
      volume = volumeOf(name, Math.max(volume.sizeBytes, sizeBytes), accessType === "ro" ? "Vri-a-tz--" : "Vwi-a-tz--");
    },
  });
  return {
    asked,
    nodeName: "node-a",
    queues: createKeyedQueue(),
    lvmd,
    client: servedClient({ get: async (_resource, { name }) => (name === SOURCE ? source : wanted) }),
    isBeingRemoved: () => false,
  };
}

describe("a volume that is there already", () => {
  it.each<[string, LogicalVolume, Volume, { sizeBytes: number; attr: string }]>([
    [
      "a copy that was not enlarged yet",
      objectOf(COPY, OF_SOURCE),
      volumeOf("copy", GIB, "Vwi-a-tz--"),
      { sizeBytes: 2 * GIB, attr: "Vwi-a-tz--" },
    ],
    [
      "a snapshot that may be written to yet",
      objectOf(SNAPSHOT, { ...OF_SOURCE, accessType: "ro" }),
      volumeOf("snapshot", GIB, "Vwi-a-tz--"),
      { sizeBytes: GIB, attr: "Vri-a-tz--" },
    ],
  ])("is finished where its making was cut short: %s", async (_what, wanted, present, finished) => {
    const parts = partsWith(present, wanted);
    expect(await findOrMake(parts, wanted)).toMatchObject(finished);
    expect(parts.asked).toEqual([`uid-of-${wanted.metadata.name} of of-source`]);
  });

  it("is told to be half made, and is left, where its source has gone meanwhile", async () => {
    const wanted = objectOf(COPY, OF_SOURCE);
    const parts = partsWith(volumeOf("copy", GIB, "Vwi-a-tz--"), wanted);
    const client = servedClient({ get: async (_resource, { name }) => (name === SOURCE ? undefined : wanted) });
    await expect(findOrMake({ ...parts, client }, wanted)).rejects.toMatchObject({
      code: status.NOT_FOUND,
      said: "there is no such object; logical volume copy of device class thin was begun for it, and is left half made",
    });
    expect(parts.asked).toEqual([]);
  });

  it.each<[string, LogicalVolume, Volume]>([
    ["a volume that has grown", objectOf(COPY, {}), volumeOf("volume", 2 * GIB, "-wi-a-----")],
    ["a whole copy", objectOf(COPY, OF_SOURCE), volumeOf("copy", 3 * GIB, "Vwi-a-tz--")],
    [
      "a whole snapshot, smaller than was thought",
      objectOf(SNAPSHOT, { ...OF_SOURCE, accessType: "ro" }),
      volumeOf("snapshot", GIB, "Vri-a-tz--"),
    ],
    [
      "a copy that was told once, and is smaller now",
      objectOf(COPY, OF_SOURCE, { volumeID: "copy", currentSize: "2Gi" }),
      volumeOf("copy", GIB, "Vwi-a-tz--"),
    ],
    [
      "one that somebody else has made",
      objectOf(COPY, { ...OF_SOURCE, volumeID: "by-hand" }),
      volumeOf("by-hand", GIB, "Vwi-a-tz--"),
    ],
  ])("is what is found: %s", async (_what, wanted, present) => {
    const parts = partsWith(present, wanted);
    expect(await findOrMake(parts, wanted)).toEqual(present);
    expect(parts.asked).toEqual([]);
  });

  it("is told as it was asked for where it has that size", async () => {
    const wanted = objectOf(COPY, {});
    const parts = partsWith(volumeOf("volume", GIB, "-wi-a-----"), wanted);
    expect(await findOrMake(parts, wanted)).toEqual({ name: wanted.metadata.uid, sizeBytes: GIB });
  });

  it("is not copied, and nobody waits, while its source is being mounted or unmounted, which may take hours", async () => {
    const wanted = objectOf(COPY, OF_SOURCE);
    const parts = partsWith(volumeOf("copy", GIB, "Vwi-a-tz--"), wanted);
    let unmounted = (): void => undefined;
    const unmounting = parts.queues.run(SOURCE, () => new Promise<void>((resolve) => (unmounted = resolve)));
    await expect(findOrMake(parts, wanted)).rejects.toMatchObject({ code: status.UNAVAILABLE });
    unmounted();
    await unmounting;
    expect(await findOrMake(parts, wanted)).toMatchObject({ sizeBytes: 2 * GIB });
  });
});
