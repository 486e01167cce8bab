// Shows that every planted bug is caught: applies one at a time to a copy of the tree and runs the tests that its entry names, by
// themselves. `node --import tsx test/mutants/run.ts [ID ...]`, or MUTANTS="ID ..."; an ID with a star at its end takes all that begin so.
// The suites of test/real and test/e2e run with TIDEMARK_SAMPLE=all only. The last line is JSON; a survivor makes the exit code 1.
import { transformSync } from "esbuild";
import { takesAll } from "../harness/sample.ts";
import { broken, type CaughtMutant, isCaught, type Mutant, readMutants, registryFiles } from "./registry.ts";
import { isSlow, makeSpareTree, type SpareTree } from "./spare-tree.ts";

interface Result {
  readonly isCaught: boolean;
  readonly line: string;
}

const startedMs = performance.now();
const all = registryFiles().flatMap(readMutants);
const chosen = choose(
  all,
  [...process.argv.slice(2), ...(process.env["MUTANTS"] ?? "").split(/[\s,]+/)].filter(Boolean),
);
const equivalent = chosen.filter((mutant) => !isCaught(mutant));
const caught = chosen.filter(isCaught);
const due = caught.filter((mutant) => catchersOf(mutant).length > 0);
const tree = makeSpareTree();
process.once("SIGINT", () => process.exit(130)).once("SIGTERM", () => process.exit(143));
process.once("exit", () => tree.remove());

const unusable = await findUnusable(tree, due);
let survived = 0;
for (const mutant of due) {
  const { isCaught: isDead, line } = await judge(tree, mutant, unusable);
  console.log(line);
  if (!isDead) survived += 1;
}
const seconds = Math.round((performance.now() - startedMs) / 1000);
const skipped = caught.length - due.length;
console.log(
  JSON.stringify({
    total: chosen.length,
    caught: due.length - survived,
    survived,
    equivalent: equivalent.length,
    ...(skipped === 0 ? {} : { slow: skipped }),
    seconds,
  }),
);
process.exitCode = survived === 0 ? 0 : 1;

/** None named: all. Throws where a name is no bug's. */
function choose(mutants: readonly Mutant[], names: readonly string[]): readonly Mutant[] {
  if (names.length === 0) return mutants;
  const means = (name: string, id: string): boolean =>
    name.endsWith("*") ? id.startsWith(name.slice(0, -1)) : id === name;
  const nobody = names.filter((name) => !mutants.some(({ id }) => means(name, id)));
  if (nobody.length > 0) throw new Error(`no planted bug is called ${nobody.join(", ")}`);
  return mutants.filter(({ id }) => names.some((name) => means(name, id)));
}

/** A short run takes the fast ones alone. */
function catchersOf({ caughtBy }: CaughtMutant): string[] {
  return caughtBy.filter((path) => takesAll() || !isSlow(path));
}

/** Test files that fail in a tree without a bug, or do not run there: they show nothing. */
async function findUnusable(spare: SpareTree, mutants: readonly CaughtMutant[]): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  spare.build();
  for (const path of new Set(mutants.flatMap((mutant) => catchersOf(mutant)))) {
    const { verdict, seconds: took, said } = await spare.test(path);
    if (verdict === "passed") continue;
    console.log(`${path} ${verdict} in ${took} s without a bug:\n${said}`);
    found.add(path);
  }
  return found;
}

/** The long run wants every test of an entry to fail, a short one the first that does. */
async function judge(spare: SpareTree, mutant: CaughtMutant, useless: ReadonlySet<string>): Promise<Result> {
  const { id, what, file } = mutant;
  const whole = spare.read(file);
  const text = broken(whole, mutant);
  const problem = file.endsWith(".ts") ? loadProblem(text) : undefined;
  if (problem !== undefined) return { isCaught: false, line: `${id} IS NO CODE: ${problem}` };
  const lines: string[] = [];
  let failures = 0;
  spare.write(file, text);
  try {
    const catchers = catchersOf(mutant).filter((path) => !useless.has(path));
    if (catchers.length === 0) return { isCaught: false, line: `${id} UNPROVEN: its tests fail without it` };
    if (catchers.some((path) => !path.startsWith("test/unit/"))) spare.build();
    for (const path of catchers) {
      const { verdict, seconds: took } = await spare.test(path);
      if (verdict === "failed") failures += 1;
      lines.push(
        verdict === "failed" ? `caught by ${path} in ${took} s` : `NOT CAUGHT by ${path} (${verdict}, ${took} s)`,
      );
      if (verdict === "failed" && !takesAll()) break;
    }
    if (failures === 0) return { isCaught: false, line: `${id} SURVIVED: ${what}; ${lines.join("; ")}` };
    return { isCaught: !takesAll() || failures === catchers.length, line: `${id} ${lines.join("; ")}` };
  } finally {
    spare.write(file, whole);
  }
}

function loadProblem(text: string): string | undefined {
  try {
    transformSync(text, { loader: "ts", format: "esm" });
    return undefined;
  } catch (error) {
    return String(error).split("\n")[1] ?? String(error);
  }
}
