// Which cases a run takes where all of them would take too long. A case belongs to one of n samples by the hash of its name, and a commit
// takes the sample of its number: any n commits in a row take every case. `make soak` takes all of them each time. TIDEMARK_SAMPLE=123 takes
// what the commit of that number took.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";

/** "all"; the number of a commit, also where there is no Git; or unset: what this commit takes. */
export const SAMPLE_VARIABLE = "TIDEMARK_SAMPLE";

/** Is this case one that this commit takes, of which n commits in a row take each? */
export function isSampled(name: string, ofCommits: number): boolean {
  if (takesAll()) return true;
  return sampleOf(name, ofCommits) === commitCount() % ofCommits;
}

/** Every case is to be taken: the long run. */
export function takesAll(): boolean {
  return process.env[SAMPLE_VARIABLE] === "all";
}

/** From 0 to `ofCommits` - 1; the same on every machine. */
export function sampleOf(name: string, ofCommits: number): number {
  return createHash("sha256").update(name).digest().readUInt32BE() % ofCommits;
}

/**
 * Of the main line: a merge counts as one commit. A tree without Git's history is commit 0. A shallow clone counts the same for every commit:
 * in CI that throws with the remedy, elsewhere it is a warning.
 */
export function commitCount(directory = process.cwd()): number {
  const given = process.env[SAMPLE_VARIABLE] ?? "";
  if (/^\d+$/.test(given)) return Number(given);
  if (ask(directory, "rev-parse", "--is-shallow-repository") === "true") refuseShallow();
  return Number(ask(directory, "rev-list", "--count", "--first-parent", "HEAD") ?? 0);
}

/** Undefined: there is no Git, or it knows no answer. */
function ask(directory: string, ...question: readonly string[]): string | undefined {
  try {
    const stdio = ["ignore", "pipe", "ignore"] as const;
    return execFileSync("git", question, { cwd: directory, encoding: "utf8", stdio: [...stdio] }).trim();
  } catch {
    return undefined;
  }
}

let isWarned = false;

function refuseShallow(): void {
  const problem =
    `Run git fetch --unshallow, or give the commit's number by ${SAMPLE_VARIABLE}: ` +
    "this clone is shallow, so every commit of it would take the same sample";
  if (process.env["CI"]) throw new Error(problem);
  if (!isWarned) process.emitWarning(problem);
  isWarned = true;
}
