// The planted bugs: each is one edit of a source file, and the tests that fail with it. test/architecture/mutants.test.ts holds the
// files to this form; run.ts applies each bug to a copy of the tree and shows that its tests still catch it.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";

export const REGISTRY_DIRECTORY = "test/mutants";

const edit = {
  id: z.string().regex(/^[a-z]+[0-9]*$/),
  /** One plain sentence: what is broken. */
  what: z.string().min(10),
  file: z.string().regex(/^((src|demo|scripts)\/.+\.ts|kustomize\/.+\.yaml)$/),
  /** Occurs exactly once in the file. */
  old: z.string().min(1),
  new: z.string(),
};
const caught = z.strictObject({
  ...edit,
  /** Test files, the fastest first. Each fails with the bug and passes without it, run by itself. */
  caughtBy: z.array(z.string().regex(/^test\/.+\.test\.ts$/)).min(1),
  /** False: the bug was never run against a slow suite, which asserts the broken path all the same. */
  seen: z.literal(false).optional(),
});
const equivalent = z.strictObject({
  ...edit,
  /** Why no behaviour differs, or which second layer holds it, by file. */
  equivalent: z.string().min(20),
});
const area = z.array(z.union([caught, equivalent]));

export type CaughtMutant = z.infer<typeof caught>;
export type Mutant = z.infer<typeof area>[number];

export function isCaught(mutant: Mutant): mutant is CaughtMutant {
  return "caughtBy" in mutant;
}

/** Paths of the registry's files, sorted. */
export function registryFiles(): string[] {
  return readdirSync(REGISTRY_DIRECTORY)
    .filter((name) => name.endsWith(".json"))
    .sort()
    .map((name) => join(REGISTRY_DIRECTORY, name));
}

/** Throws where the file has another form; the error names the file and the entry. */
export function readMutants(path: string): Mutant[] {
  const entries: unknown = JSON.parse(readFileSync(path, "utf8"));
  const read = area.safeParse(entries);
  if (!read.success) throw new Error(`${path}: ${z.prettifyError(read.error)}`);
  return read.data;
}

/** Throws where `old` does not stand there exactly once. */
export function broken(text: string, mutant: Pick<Mutant, "id" | "file" | "old" | "new">): string {
  const count = text.split(mutant.old).length - 1;
  if (count !== 1) throw new Error(`${mutant.id}: its text stands ${count} times in ${mutant.file}, not once`);
  return text.replace(mutant.old, () => mutant.new);
}
