// Hostile shrinks, one after the other, each by a seed of its own: 12 of a commit, which are other ones with each commit, and 200 in the long run.
import { expect, it } from "@jest/globals";
import { MOVED_SUBVOLUMES_MAX } from "../../../src/agent/storage/decide-shrink.ts";
import { formatBytes } from "../../../src/contracts/quantities/quantity.ts";
import { commitCount, takesAll } from "../../harness/sample.ts";
import type { HostileGround } from "./hostile-ground.ts";
import { type HostileEnd, liveHostileShrink } from "./hostile-shrink.ts";

/** Of one ground. */
export interface HostileRun {
  /** "a loop device". */
  readonly on: string;
  readonly makeGround: () => Promise<HostileGround>;
  readonly countOfCommit: number;
  readonly countOfLongRun: number;
}

/** So many shrinks have both kinds of content, whatever the seed. */
const BOTH_KINDS = 12;
const LIMIT_MS_EACH = 120_000;
const SEEDS_APART = 1000;

/** `TIDEMARK_SEED` repeats a run; a failure names the seed of its shrink, which is the first of a run by that seed. */
export function itSurvivesHostileShrinks({ on, makeGround, countOfCommit, countOfLongRun }: HostileRun): void {
  const count = takesAll() ? countOfLongRun : countOfCommit;
  it(
    `${count} btrfs on ${on} that hostile users fill, write to and snapshot are asked to shrink: none is read-only, and no byte is lost`,
    async () => {
      const first = Number(process.env["TIDEMARK_SEED"] || commitCount() * SEEDS_APART);
      const ends: HostileEnd[] = [];
      const failures: unknown[] = [];
      for (let seed = first; seed < first + count; seed += 1)
        await liveHostileShrink(seed, makeGround).then(
          (end) => ends.push(end),
          (error: unknown) => failures.push(error),
        );
      process.stdout.write(`hostile shrinks on ${on} from the seed ${first}: ${summary(ends)}\n`);
      expect(failures.map(String)).toEqual([]);
      if (count < BOTH_KINDS) return;
      // Both kinds were among them: data that was moved, and such that must not be.
      const smaller = ends.filter(({ fromBytes, toBytes }) => toBytes < fromBytes);
      expect(smaller.filter(mayMove).length).toBeGreaterThan(0);
      expect(ends.filter((end) => !mayMove(end)).length).toBeGreaterThan(0);
    },
    count * LIMIT_MS_EACH,
  );
}

function mayMove({ content: { snapshots, subvolumes, reflinkCopies } }: HostileEnd): boolean {
  return snapshots === 0 && (!subvolumes || reflinkCopies < MOVED_SUBVOLUMES_MAX);
}

function summary(ends: readonly HostileEnd[]): string {
  const of = (outcome: HostileEnd["outcome"]): string =>
    `${ends.filter((end) => end.outcome === outcome).length} ${outcome}`;
  const givenBack = ends.reduce((sum, { fromBytes, toBytes }) => sum + fromBytes - toBytes, 0);
  const files = ends.reduce((sum, end) => sum + end.files, 0);
  return (
    `${ends.length} shrinks, ${of("Succeeded")}, ${of("FloorReached")}, ${of("Cancelled")}; ${formatBytes(givenBack)} given back; ` +
    `${files} files compared`
  );
}
