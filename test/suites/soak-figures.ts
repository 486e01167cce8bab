// test/soak.json: what the last long run measured, at which commit. It is committed, so that everybody sees what was tried, and how old it is.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { commitCount } from "../harness/sample.ts";
import type { Figures } from "../soak/figures.ts";

const PATH = "test/soak.json";
const OLD_COMMITS = 100;

export interface SoakFigures {
  /** Its number on the main line. */
  readonly commit: number;
  readonly seconds: number;
  /** By path. */
  readonly suites: Readonly<Record<string, SoakedSuite>>;
  /** For which there was no time. */
  readonly leftOut: readonly string[];
  /** What suites have measured. */
  readonly figures: Readonly<Record<string, Figures>>;
}

export interface SoakedSuite {
  readonly seconds: number;
  readonly passed: number;
  readonly failed: number;
}

export function readSoakFigures(): SoakFigures | undefined {
  return existsSync(PATH) ? (JSON.parse(readFileSync(PATH, "utf8")) as SoakFigures) : undefined;
}

export function writeSoakFigures(figures: SoakFigures): void {
  writeFileSync(PATH, `${JSON.stringify(figures, undefined, 2)}\n`);
}

/** A sentence for who runs the tests, where the long run is long ago; undefined where it is not. */
export function soakWarning(figures: SoakFigures | undefined, commit: number = commitCount()): string | undefined {
  if (figures === undefined) return `${PATH} is missing: run make soak and commit what it writes`;
  const commits = commit - figures.commit;
  if (commits > OLD_COMMITS)
    return `the long run was ${commits} commits ago, more than ${OLD_COMMITS}: run make soak and commit ${PATH}`;
  const { length } = figures.leftOut;
  return length > 0 ? `the long run left out ${length} suites: run make soak and commit ${PATH}` : undefined;
}
