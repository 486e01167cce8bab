// LVM for the fake lvmd: volumes are sparse files behind real loop devices, so that what is said of one is so in the kernel. Its classes
// are figures; thick and thin differ in name, and in what is refused.
import { execFile } from "node:child_process";
import { closeSync, mkdirSync, openSync, renameSync, rmSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { status } from "@grpc/grpc-js";
import { readCommittedSize, readExt4Bytes } from "../../src/agent/storage/filesystem/superblocks.ts";
import type { DeviceClass, ReduceLVRequest, Volume } from "../../src/contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import { GRAIN_BYTES, makeDeviceClass, THIN_POOL } from "../builders/device-class.ts";

const run = promisify(execFile);

/** What lvmd would answer with this status. */
export class Refused extends Error {
  readonly code: status;

  constructor(code: status, message: string) {
    super(message);
    this.code = code;
  }
}

export interface FakeLvm {
  classes(): DeviceClass[];
  /** The default one for "". */
  classOf(name: string): DeviceClass;
  setClass(name: string, change: Partial<DeviceClass> | undefined): void;
  volumes(): Volume[];
  volumeOf(className: string, name: string): Volume;
  make(className: string, name: string, sizeBytes: number, tags: readonly string[]): Promise<Volume>;
  /** Into a volume that was just made. */
  copy(from: Volume, to: Volume): Promise<void>;
  grow(volume: Volume, sizeBytes: number): Promise<number>;
  reduce(request: ReduceLVRequest): Promise<number>;
  /** The size that a reduction of this token came to; from now on none begins. */
  burn(token: string): number | undefined;
  /** As after a reboot: without a device, or with one again. */
  setActive(name: string, isActive: boolean): Promise<void>;
  /** The volume gets the snapshot's content, on another device. */
  merge(volume: Volume, snapshot: string): Promise<void>;
  retag(volume: Volume, tags: readonly string[]): void;
  remove(name: string): Promise<void>;
  /** Detaches all that is not in use. */
  detachAll(): Promise<void>;
}

/** What became of a token: the request that was carried out, or none and never. */
type Outcome = { readonly request: ReduceLVRequest; readonly sizeBytes: number } | "Burnt";

export function createFakeLvm(directory: string): FakeLvm {
  mkdirSync(directory, { recursive: true });
  const volumes = new Map<string, Volume>();
  const outcomes = new Map<string, Outcome>();
  const classes = new Map<string, DeviceClass>([
    ["thick", makeDeviceClass({ isDefault: true })],
    ["thin", makeDeviceClass({ name: "thin", thinPool: THIN_POOL })],
  ]);

  const freeBytes = ({ name, freeBytes: untouchedBytes }: DeviceClass): number =>
    [...volumes.values()]
      .filter(({ deviceClass }) => deviceClass === name)
      .reduce((left, { sizeBytes }) => left - sizeBytes, untouchedBytes);
  const classOf = (name: string): DeviceClass => {
    const found = [...classes.values()].find((each) => (name === "" ? each.isDefault : each.name === name));
    if (found !== undefined) return found;
    throw new Refused(status.NOT_FOUND, `device-class not found: ${name}`);
  };
  const takeRoom = (of: DeviceClass, growthBytes: number): void => {
    if (growthBytes <= freeBytes(of)) return;
    throw new Refused(
      status.RESOURCE_EXHAUSTED,
      `no enough space left on VG: free=${freeBytes(of)}, requested=${growthBytes}`,
    );
  };
  const setSize = async (volume: Volume, sizeBytes: number): Promise<number> => {
    truncateSync(join(directory, volume.name), sizeBytes);
    await run("losetup", ["--set-capacity", volume.path]);
    volumes.set(volume.name, { ...volume, sizeBytes });
    return sizeBytes;
  };
  const reduceOnce = async (request: ReduceLVRequest): Promise<number> => {
    const volume = [...volumes.values()].find(({ uuid }) => uuid === request.lvUuid);
    if (volume === undefined) throw new Refused(status.NOT_FOUND, `no logical volume ${request.lvUuid}`);
    if (volume.sizeBytes !== request.fromBytes)
      throw new Refused(status.ABORTED, `its size is ${volume.sizeBytes}, not ${request.fromBytes}`);
    const toBytes = wholeGrains(request.toBytes);
    const endBytes =
      readCommittedSize(volume.path)?.deviceBytes ?? readExt4Bytes(volume.path) ?? Number.POSITIVE_INFINITY;
    if (endBytes > toBytes)
      throw new Refused(status.FAILED_PRECONDITION, `the superblock ends at ${endBytes}, beyond ${toBytes}`);
    outcomes.set(request.token, { request, sizeBytes: toBytes });
    return setSize(volume, toBytes);
  };

  return {
    classes: () => [...classes.values()].map((each) => ({ ...each, freeBytes: freeBytes(each) })),
    classOf,
    setClass: (name, change) => {
      if (change === undefined) classes.delete(name);
      else classes.set(name, { ...makeDeviceClass({ name }), ...classes.get(name), ...change });
    },
    volumes: () => [...volumes.values()],
    volumeOf: (className, name) => {
      const { name: found } = classOf(className);
      const volume = volumes.get(name);
      if (volume?.deviceClass === found) return volume;
      throw new Refused(status.NOT_FOUND, `logical volume not found: ${name}`);
    },
    make: async (className, name, askedBytes, tags) => {
      const of = classOf(className);
      if (volumes.has(name)) throw new Refused(status.ALREADY_EXISTS, `logical volume ${name} already exists`);
      const sizeBytes = wholeGrains(askedBytes);
      takeRoom(of, sizeBytes);
      const file = join(directory, name);
      closeSync(openSync(file, "wx"));
      truncateSync(file, sizeBytes);
      const path = await attach(file);
      const identity = { name, uuid: `uuid-of-${name}`, deviceClass: of.name, tags: [...tags] };
      const volume = {
        ...EMPTY_VOLUME,
        ...identity,
        sizeBytes,
        path,
        ...numbersOf(path),
        ...(of.thinPool === undefined ? {} : { thin: true, attr: "Vwi-a-tz--" }),
      };
      volumes.set(name, volume);
      return volume;
    },
    copy: async (from, to) => {
      // A hole of the source stays one: a volume just made reads as zeros, and writing them would take a hundred times as long.
      await run("dd", [`if=${join(directory, from.name)}`, `of=${to.path}`, "bs=64K", "conv=sparse,notrunc,fsync"]);
    },
    grow: async (volume, askedBytes) => {
      const sizeBytes = wholeGrains(askedBytes);
      if (sizeBytes <= volume.sizeBytes) return volume.sizeBytes;
      takeRoom(classOf(volume.deviceClass), sizeBytes - volume.sizeBytes);
      return setSize(volume, sizeBytes);
    },
    reduce: async (request) => {
      const known = outcomes.get(request.token);
      if (known === undefined) return reduceOnce(request);
      if (known === "Burnt") throw new Refused(status.FAILED_PRECONDITION, `token ${request.token} is burnt`);
      if (JSON.stringify(known.request) === JSON.stringify(request)) return known.sizeBytes;
      throw new Refused(status.INVALID_ARGUMENT, `token ${request.token} is of another reduction`);
    },
    burn: (token) => {
      const known = outcomes.get(token) ?? "Burnt";
      outcomes.set(token, known);
      return known === "Burnt" ? undefined : known.sizeBytes;
    },
    setActive: async (name, isActive) => {
      const volume = volumes.get(name);
      if (volume === undefined) throw new Refused(status.NOT_FOUND, `logical volume not found: ${name}`);
      if (isActive === (volume.path !== "")) return;
      if (isActive) {
        const path = await attach(join(directory, name));
        volumes.set(name, { ...volume, path, ...numbersOf(path) });
      } else {
        await run("losetup", ["--detach", volume.path]);
        volumes.set(name, { ...volume, path: "", devMajor: 0, devMinor: 0 });
      }
    },
    merge: async (volume, snapshot) => {
      const held = volumes.get(snapshot);
      if (held === undefined) return;
      for (const { path } of [volume, held]) await run("losetup", ["--detach", path]);
      renameSync(join(directory, snapshot), join(directory, volume.name));
      volumes.delete(snapshot);
      const path = await attach(join(directory, volume.name));
      volumes.set(volume.name, { ...volume, path, ...numbersOf(path) });
    },
    retag: (volume, tags) => volumes.set(volume.name, { ...volume, tags: [...tags] }),
    remove: async (name) => {
      const volume = volumes.get(name);
      if (volume === undefined) return;
      if (volume.path !== "") await run("losetup", ["--detach", volume.path]);
      rmSync(join(directory, name));
      volumes.delete(name);
    },
    detachAll: async () => {
      for (const { path } of volumes.values()) if (path !== "") await run("losetup", ["--detach", path]);
    },
  };
}

async function attach(file: string): Promise<string> {
  return (await run("losetup", ["--find", "--show", "--nooverlap", file])).stdout.trim();
}

const EMPTY_VOLUME = { thin: false, attr: "-wi-a-----", origin: "", dataPercent: 0, io: undefined };

function wholeGrains(sizeBytes: number): number {
  return Math.ceil(sizeBytes / GRAIN_BYTES) * GRAIN_BYTES;
}

function numbersOf(device: string): Pick<Volume, "devMajor" | "devMinor"> {
  const { rdev } = statSync(device);
  return { devMajor: (rdev >> 8) & 0xfff, devMinor: (rdev & 0xff) | ((rdev >> 12) & 0xfff00) };
}
