// What is to be cut off is zeroed, or discarded, piece by piece, and only while it is nobody's. On a file that says it is ext4.
import { closeSync, mkdtempSync, openSync, rmSync, truncateSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { Refusal } from "../../../../../src/contracts/csi/refusal.ts";
import { type Clearing, clearCut } from "../../../../../src/lvmd/volumes/reduce/clear-cut.ts";
import type { Stop } from "../../../../../src/lvmd/volumes/reduce/reductions.ts";
import type { VolumeHost } from "../../../../../src/lvmd/volumes/volume-host.ts";
import { MIB } from "../../lvm-facts.ts";

const REQUEST = { volumeUUID: "u", fromBytes: 600 * MIB, toBytes: 398 * MIB, token: "t" };
const TARGET = 400 * MIB;
const ALL = [
  [400, 64],
  [464, 64],
  [528, 64],
  [592, 8],
];

describe("the end of a volume that is to be cut off", () => {
  let directory: string;
  let path: string;
  let sizeBytes: number;
  let stop: Stop | undefined;
  let cleared: number[][];
  /** Called at each piece, with how many there were before. */
  let atPiece: (before: number) => void;

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "clear-cut-"));
    path = join(directory, "device");
    [sizeBytes, stop, cleared, atPiece] = [REQUEST.fromBytes, undefined, [], () => undefined];
    endAt(REQUEST.toBytes);
    truncateSync(path, sizeBytes);
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  /** struct ext4_super_block, as far as it is read. */
  function endAt(bytes: number): void {
    const block = Buffer.alloc(1024);
    block.writeUInt32LE(bytes / 4096, 0x4);
    block.writeUInt32LE(2, 0x18);
    block.writeUInt16LE(0xef53, 0x38);
    const file = openSync(path, "a+");
    closeSync(file);
    const device = openSync(path, "r+");
    writeSync(device, block, 0, block.length, 1024);
    closeSync(device);
  }

  function clear(clearing: Clearing): Promise<Stop | undefined> {
    const commands: Pick<VolumeHost["commands"], "run" | "query"> = {
      query: async () => ({ exitCode: 0, stdout: '{"signatures":[{"type":"ext4"}]}', stderr: "" }),
      run: async (_point, _program, args) => {
        const valueOf = (flag: string): number => Number(args[args.indexOf(flag) + 1]) / MIB;
        atPiece(cleared.length);
        cleared.push([valueOf("--offset"), valueOf("--length")]);
        expect(args.at(-1)).toBe(path);
        expect(args.includes("--zeroout")).toBe(clearing === "zero");
        return { exitCode: 0, stdout: "", stderr: "" };
      },
    };
    const held = { path, discards: true, sizeBytes: async () => sizeBytes, close: async () => undefined };
    const host = { commands } as Partial<VolumeHost> as VolumeHost;
    const underWay = { stopped: () => stop };
    return clearCut(host, held, clearing, { request: REQUEST, targetBytes: TARGET, underWay });
  }

  it("is zeroed whole, and nothing in front of it", async () => {
    expect(await clear("zero")).toBeUndefined();
    expect(cleared).toEqual(ALL);
  });

  it("is discarded where the volume is thin, in larger pieces", async () => {
    expect(await clear("discard")).toBeUndefined();
    expect(cleared).toEqual([[400, 200]]);
  });

  it("is zeroed no further once the reduction is to stop", async () => {
    atPiece = (before) => {
      if (before === 1) stop = { kind: "Cancelled" };
    };
    expect(await clear("zero")).toEqual({ kind: "Cancelled" });
    expect(cleared).toEqual(ALL.slice(0, 2));
  });

  it("is not touched once the filesystem has grown into it", async () => {
    atPiece = (before) => {
      if (before === 0) endAt(410 * MIB);
    };
    const refusal = await clear("zero").catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(Refusal);
    expect(refusal).toMatchObject({ code: "FAILED_PRECONDITION", message: expect.stringContaining("ends at") });
    expect(cleared).toEqual(ALL.slice(0, 1));
  });

  it("is not touched once the volume has another size", async () => {
    sizeBytes += 4 * MIB;
    await expect(clear("zero")).rejects.toMatchObject({ code: "ABORTED" });
    expect(cleared).toEqual([]);
  });

  it("is said to be stopped where it is that as well: the token of a stop may have to be burnt", async () => {
    atPiece = (before) => {
      if (before !== 0) return;
      endAt(410 * MIB);
      stop = { kind: "Cancelled" };
    };
    expect(await clear("zero")).toEqual({ kind: "Cancelled" });
    expect(cleared).toEqual(ALL.slice(0, 1));
  });
});
