// What a long run measured, noted by its suites: `make soak` gathers the notes into test/soak.json.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const DIRECTORY = ".tidemark/figures";

export type Figures = Readonly<Record<string, unknown>>;

/** `suite`: a file name without its ending. Beside those that it has noted before. */
export function noteFigures(suite: string, figures: Figures): void {
  const all = { ...readFigures()[suite], ...figures };
  writeFileSync(join(DIRECTORY, `${suite}.json`), `${JSON.stringify(all, undefined, 2)}\n`);
}

/** By suite. */
export function readFigures(): Readonly<Record<string, Figures>> {
  mkdirSync(DIRECTORY, { recursive: true });
  const read = (name: string): Figures => JSON.parse(readFileSync(join(DIRECTORY, name), "utf8")) as Figures;
  const names = readdirSync(DIRECTORY).sort();
  return Object.fromEntries(names.map((name) => [name.replace(/\.json$/, ""), read(name)]));
}

export function forgetFigures(): void {
  rmSync(DIRECTORY, { recursive: true, force: true });
}
