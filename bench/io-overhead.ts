// What a span costs its writers and readers: the same load on a span of one member, on one of four, and on ext4, each on fresh
// sparse files of one disk behind loop devices, as the test's member driver makes them. They take turns in every round, and a
// ratio is that of one round. ROUNDS=1 shortens it.
import { type Benchmark, quantile, round, type Say, settingFromEnvironment } from "./benchmark.ts";
import { FIGURES, type Figures, measureFilesystem } from "./io-overhead/fio.ts";
import { FILESYSTEMS, type FilesystemKind, withFilesystem } from "./io-overhead/fresh-filesystem.ts";

const ROUNDS = 5;

type Round = Readonly<Record<FilesystemKind, Figures>>;

export const ioOverheadBenchmark: Benchmark = async (say) => {
  const count = settingFromEnvironment("ROUNDS", ROUNDS);
  const rounds: Round[] = [];
  for (let index = 0; index < count; index += 1) {
    const measured: Partial<Record<FilesystemKind, Figures>> = {};
    for (const kind of rotated(FILESYSTEMS, index)) {
      measured[kind] = await withFilesystem(kind, measureFilesystem);
      sayFigures(`${index + 1}/${count} ${kind}`, measured[kind], say);
    }
    rounds.push(measured as Round);
  }
  return {
    rounds: count,
    base: Object.fromEntries(FIGURES.map((figure) => [figure, median(rounds.map(({ ext4 }) => ext4[figure]))])),
    span1: ratios(rounds, "span1"),
    span4: ratios(rounds, "span4"),
  };
};

/** Each is the first, the second and the last equally often. */
function rotated<T>(all: readonly T[], by: number): readonly T[] {
  const first = by % all.length;
  return [...all.slice(first), ...all.slice(0, first)];
}

/** Over ext4's figure of the same round: above 1 the span is faster. */
function ratios(rounds: readonly Round[], kind: FilesystemKind) {
  return Object.fromEntries(
    FIGURES.map((figure) => {
      const all = rounds.map((one) => one[kind][figure] / one.ext4[figure]);
      return [figure, { ratio: median(all), min: round(Math.min(...all), 2), max: round(Math.max(...all), 2) }];
    }),
  );
}

function median(values: readonly number[]): number {
  return round(quantile(values, 0.5), 2);
}

function sayFigures(what: string, figures: Figures, say: Say): void {
  say(`${what}: ${FIGURES.map((figure) => `${figure} ${round(figures[figure], 1)}`).join(", ")}`);
}
