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

/** Of the main line: a merge counts as one commit. A tree without Git's history is commit 0. */
export function commitCount(): number {
  const given = process.env[SAMPLE_VARIABLE] ?? "";
  if (/^\d+$/.test(given)) return Number(given);
  try {
    const counted = execFileSync("git", ["rev-list", "--count", "--first-parent", "HEAD"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    return Number(counted.trim());
  } catch {
    return 0;
  }
}
