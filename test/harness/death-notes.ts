// Where processes died in a run, noted by each suite that kills them: `make test-real` compares the notes of all suites with
// test/effect-points.json, so that no effect is one that nobody dies at.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Below the work tree. A virtual machine writes there, too. */
const DIRECTORY = ".tidemark/deaths";

export interface DeathNotes {
  /** Passages at which the suite kills in one run or another: "operation/step/before", "operation/step/after". */
  readonly killsAt: readonly string[];
  /** Of them, those at which a process died in this run. */
  readonly diedAt: readonly string[];
}

/** `suite`: a file name without its ending, one for each suite and each part of it that has a process of its own. */
export function noteDeaths(suite: string, notes: DeathNotes): void {
  mkdirSync(DIRECTORY, { recursive: true });
  const sorted = { killsAt: [...new Set(notes.killsAt)].sort(), diedAt: [...new Set(notes.diedAt)].sort() };
  writeFileSync(join(DIRECTORY, `${suite}.json`), `${JSON.stringify(sorted, undefined, 2)}\n`);
}

/** For a suite that kills at points of a list, each in a case of its own: `killedAt` notes that a process has died there. */
export function deathRecord(suite: string): { killedAt(passage: string): void; note(): void } {
  const diedAt: string[] = [];
  return {
    killedAt: (passage) => diedAt.push(passage.replace(/#\d+$/, "")),
    note: () => noteDeaths(suite, { killsAt: diedAt, diedAt }),
  };
}

/** By suite; those of the run that `forgetDeaths` began. */
export function readDeathNotes(): ReadonlyMap<string, DeathNotes> {
  const names = readdirSync(DIRECTORY).filter((name) => name.endsWith(".json"));
  return new Map(
    names.map((name) => [
      name.replace(/\.json$/, ""),
      JSON.parse(readFileSync(join(DIRECTORY, name), "utf8")) as DeathNotes,
    ]),
  );
}

export function forgetDeaths(): void {
  rmSync(DIRECTORY, { recursive: true, force: true });
}
