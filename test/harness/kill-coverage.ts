// Whether the suites that kill processes die, all together, at every effect there is: what their notes lack stands in one list, with its
// reason. Pure; the program that reads notes and list is check-kill-coverage.ts.
import type { DeathNotes } from "./death-notes.ts";

/** An effect that no suite of a whole run must die at. */
export interface NotDiedAt {
  /** "operation/step": both of its passages; or one of them; or "operation": all of its steps. */
  readonly at: string;
  readonly why: string;
  /** Some runs die there, and others do not: it depends on who is quicker. Without it a run that dies there fails the check. */
  readonly nowAndThen?: true;
}

export interface KillCoverage {
  /** Sentences; empty: every effect is died at, or it is known why not. */
  readonly problems: readonly string[];
  readonly passages: number;
  /** By the suites, in one run or another. */
  readonly killsAt: number;
  /** In this run. */
  readonly diedAt: number;
}

/** `points`: all effect points. */
export function killCoverage(
  points: readonly string[],
  notes: ReadonlyMap<string, DeathNotes>,
  exceptions: readonly NotDiedAt[],
): KillCoverage {
  const passages = points.flatMap((point) => [`${point}/before`, `${point}/after`]);
  const suites = [...notes.values()];
  const killsAt = new Set(suites.flatMap((suite) => suite.killsAt));
  const diedAt = new Set(suites.flatMap((suite) => suite.diedAt));
  const covered = (exception: NotDiedAt): string[] => passages.filter((passage) => isOf(exception, passage));
  const excepted = new Set(exceptions.flatMap(covered));
  return {
    problems: [
      ...passages
        .filter((passage) => !killsAt.has(passage) && !excepted.has(passage))
        .map((passage) => `${passage}: no suite dies there, and it is not said why`),
      ...[...killsAt]
        .filter((passage) => !passages.includes(passage))
        .map((passage) => `${passage}: no effect's passage`),
      ...exceptions
        .filter((exception) => covered(exception).length === 0)
        .map(({ at }) => `${at}: the list of exceptions names it, and there is no such effect`),
      ...exceptions
        .filter(({ nowAndThen }) => nowAndThen === undefined)
        .flatMap(covered)
        .filter((passage) => killsAt.has(passage))
        .map((passage) => `${passage}: the list of exceptions names it, and ${suiteAt(notes, passage)} dies there`),
    ],
    passages: passages.length,
    killsAt: passages.filter((passage) => killsAt.has(passage)).length,
    diedAt: passages.filter((passage) => diedAt.has(passage)).length,
  };
}

export function isOf({ at }: NotDiedAt, passage: string): boolean {
  return passage === at || passage.startsWith(`${at}/`);
}

function suiteAt(notes: ReadonlyMap<string, DeathNotes>, passage: string): string {
  return [...notes].find(([, { killsAt }]) => killsAt.includes(passage))?.[0] ?? "";
}
