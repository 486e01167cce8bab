// One shrink of a btrfs that a hostile user has filled and writes to: whatever becomes of it, the filesystem stays writable and each acknowledged
// byte is there. What it does is of its seed.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { mountAt } from "../../../src/agent/storage/filesystem/devices-and-mounts.ts";
import type { ShrinkResult } from "../../../src/agent/storage/storage.ts";
import { startWriter, verifyFiles } from "../../integration/storage/written-files.ts";
import { contentOf, fill, type HostileContent, type Random } from "./hostile-content.ts";
import type { HostileGround } from "./hostile-ground.ts";

export interface HostileEnd {
  readonly content: HostileContent;
  readonly outcome: ShrinkResult["outcome"];
  readonly fromBytes: number;
  readonly toBytes: number;
  readonly files: number;
}

const ATTEMPTS = 3;

/** Throws with its seed where a byte or the filesystem was lost. */
export async function liveHostileShrink(seed: number, makeGround: () => Promise<HostileGround>): Promise<HostileEnd> {
  const random = randomOf(seed);
  const content = contentOf(random);
  const ground = await makeGround();
  try {
    const manifest = join(ground.directory, "manifest");
    const mountPath = await ground.begin();
    fill(mountPath, manifest, content, random);
    const fromBytes = await ground.grow();
    const writer =
      content.writerMegabytesPerSecond === 0
        ? undefined
        : startWriter(mountPath, manifest, {
            megabytesPerSecond: content.writerMegabytesPerSecond,
            keptFiles: 20,
            synced: true,
          });
    let result: ShrinkResult = { outcome: "Cancelled", sizeBytes: fromBytes, message: "" };
    for (let attempt = 0; attempt < ATTEMPTS && result.outcome === "Cancelled"; attempt += 1)
      result = await ground.shrink();
    const error = writer?.error();
    await writer?.stop();
    if (mountAt(mountPath)?.readOnly !== false) throw new Error("it is read-only");
    // A writer that fills what was free before the shrink, too, is no loss of the shrink's.
    if (error !== undefined && !(error === "ENOSPC" && content.fullness > 0.6))
      throw new Error(`the writer met ${error}`);
    await ground.remount();
    const { files, corrupt } = existsSync(manifest) ? verifyFiles(mountPath, manifest) : { files: 0, corrupt: [] };
    if (corrupt.length > 0) throw new Error(`${corrupt.length} files are corrupt, of them ${corrupt[0]}`);
    // Sums of quota groups may lag, which btrfs check calls an error.
    if (content.quotaGroups) execFileSync("btrfs", ["quota", "disable", mountPath]);
    await ground.endChecked();
    return { content, outcome: result.outcome, fromBytes, toBytes: result.sizeBytes, files };
  } catch (error) {
    throw new Error(`hostile shrink ${seed} (${JSON.stringify(content)}): ${String(error)}`, { cause: error });
  } finally {
    await ground.cleanUp();
  }
}

/** mulberry32: the same numbers on every machine. */
function randomOf(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
