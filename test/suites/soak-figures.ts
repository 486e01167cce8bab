// test/soak.json: what the last long run of each suite measured, at which commit. It is committed, so that everybody sees what was tried, and
// how old it is.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { commitCount } from "../harness/sample.ts";
import type { Figures } from "../soak/figures.ts";
import { SOAK_SUITES } from "./soak-suites.ts";

const PATH = "test/soak.json";
const OLD_COMMITS = 100;

export interface SoakedSuite {
  /** Its number on the main line. */
  readonly commit: number;
  readonly seconds: number;
  readonly passed: number;
  readonly failed: number;
  /** What the suite itself measured. */
  readonly figures?: Figures;
}

/** By the suite's path. */
export type SoakFigures = Readonly<Record<string, SoakedSuite>>;

export function readSoakFigures(): SoakFigures {
  return existsSync(PATH) ? (JSON.parse(readFileSync(PATH, "utf8")) as SoakFigures) : {};
}

/** In place of what this suite had; others stay as they are, and those that are no longer of the long run go. */
export function keepSoakFigures(suite: string, soaked: SoakedSuite): void {
  const kept = Object.entries({ ...readSoakFigures(), [suite]: soaked }).filter(([path]) => isOfLongRun(path));
  const sorted = kept.sort(([a], [b]) => a.localeCompare(b));
  writeFileSync(PATH, `${JSON.stringify(Object.fromEntries(sorted), undefined, 2)}\n`);
}

function isOfLongRun(path: string): boolean {
  return SOAK_SUITES.some((suite) => suite === path);
}

/** First what has no result or failed, then what ran the longest ago; otherwise in the order that is given. */
export function soakOrder<Suite extends string>(suites: readonly Suite[], figures: SoakFigures): Suite[] {
  const commitOf = (suite: Suite): number => {
    const soaked = figures[suite];
    return soaked === undefined || soaked.failed > 0 ? 0 : soaked.commit;
  };
  return [...suites].sort((a, b) => commitOf(a) - commitOf(b));
}

/** For a person who runs the tests: suites of the long run that failed, never ran, or ran long ago. Undefined where there are none. */
export function soakWarning(
  figures: SoakFigures,
  commit: number = commitCount(),
  suites: readonly string[] = SOAK_SUITES,
): string | undefined {
  const failed = suites.filter((suite) => (figures[suite]?.failed ?? 0) > 0);
  const missing = suites.filter((suite) => figures[suite] === undefined);
  const old = suites.filter((suite) => commit - (figures[suite]?.commit ?? commit) > OLD_COMMITS);
  const parts = [
    ...(failed.length > 0 ? [`failed: ${failed.join(", ")}`] : []),
    ...(missing.length > 0 ? [`never ran: ${missing.join(", ")}`] : []),
    ...(old.length > 0 ? [`ran more than ${OLD_COMMITS} commits ago: ${old.join(", ")}`] : []),
  ];
  return parts.length === 0 ? undefined : `run make soak and commit ${PATH}. In the long run, ${parts.join("; ")}`;
}
