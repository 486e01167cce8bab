// After all suites of a whole run: do they kill processes at every effect there is, but for those that not-died-at.ts names with a reason?
// Prints at how many passages, and each problem; exits with 1 where there is one.
import { readFileSync } from "node:fs";
import { readDeathNotes } from "./death-notes.ts";
import { killCoverage } from "./kill-coverage.ts";
import { NOT_DIED_AT } from "./not-died-at.ts";

const points = JSON.parse(readFileSync("test/effect-points.json", "utf8")) as string[];
const notes = readDeathNotes();
const { problems, passages, killsAt, diedAt } = killCoverage(points, notes, NOT_DIED_AT);
console.log(
  `Deaths: ${diedAt} of ${passages} passages died at in this run, ${killsAt} in one run or another, by ${notes.size} suites; ${NOT_DIED_AT.length} exceptions.`,
);
for (const problem of problems) console.error(problem);
if (problems.length > 0) process.exitCode = 1;
