// A volume that lives through power cuts, one after the other on the same disks: each boot verifies what the cut before it has left, and is
// cut itself.
import { randomUUID } from "node:crypto";
import { copyFileSync, cpSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { bundleOperation } from "../../integration/storage/bundled-operation.ts";
import { createAims } from "./aims.ts";
import { type Boot, boot, isSaid, type PlannedCut } from "./cut-machine.ts";
import { type Cut, createRandom, type Life, planCut, type Span, type Story } from "./cut-plan.ts";
import type { MachineSettings } from "./machine-settings.ts";

const WRITER = fileURLToPath(new URL("writer.mjs", import.meta.url));
const DISKS = { data: 2 ** 31, state: 2 ** 26 } as const;
/** For what has not been measured yet. */
const FIRST_GUESS_MS = 150;

export interface CyclesSettings {
  readonly story: Story;
  /** Of each of its lives. */
  readonly cuts: number;
  /** Aim again at what was missed. */
  readonly reachesGoals: boolean;
  /** Of the first life; each other has one more than the one before. */
  readonly seed: number;
  /** The kernel's, for run-in-vm.sh. */
  readonly environment: Readonly<Record<string, string>>;
  /** Told of each, once it has been verified. */
  readonly onCut: (text: string) => void;
  /** Told what repeats the damage, which is then thrown. */
  readonly onDamage: (seed: FailedSeed) => void;
}

/** That many cuts of this life showed damage once. */
export interface FailedSeed {
  readonly seed: number;
  readonly life: string;
  readonly cuts: number;
}

/** How many cuts hit each phase. Throws at the first damage. */
export async function livePowerCuts(settings: CyclesSettings): Promise<Map<string, number>> {
  const hits = new Map<string, number>();
  const stopped = new AbortController();
  const lives = settings.story.lives.map((life, index) =>
    liveAlone(life, { ...settings, seed: settings.seed + index }, hits, stopped.signal).catch((error: unknown) => {
      stopped.abort();
      throw error;
    }),
  );
  const failures = (await Promise.allSettled(lives)).flatMap((end) =>
    end.status === "rejected" ? [end.reason as unknown] : [],
  );
  if (failures.length > 0)
    throw new AggregateError(failures, `damaged, with the seed ${settings.seed}: ${failures.map(String).join("; ")}`);
  return hits;
}

async function liveAlone(
  life: Life,
  settings: CyclesSettings,
  hits: Map<string, number>,
  stopped: AbortSignal,
): Promise<void> {
  const directory = mkdtempSync("/dev/shm/tidemark-power-cut-");
  const { program, remove } = bundleOperation(settings.story.machine);
  try {
    copyFileSync(program, join(directory, "machine.cjs"));
    copyFileSync(WRITER, join(directory, "writer.mjs"));
    // Whose threads read mounts: it is looked for in the machine's work directory, which is this one.
    cpSync(resolve("dist"), join(directory, "dist"), { recursive: true, filter: (path) => !path.endsWith(".map") });
    for (const [name, bytes] of Object.entries(DISKS)) {
      writeFileSync(join(directory, name), "");
      truncateSync(join(directory, name), bytes);
    }
    await cutAgainAndAgain({ directory, life, settings, hits, stopped });
  } finally {
    remove();
    rmSync(directory, { recursive: true, force: true });
  }
}

interface Cycles {
  readonly directory: string;
  readonly life: Life;
  readonly settings: CyclesSettings;
  readonly hits: Map<string, number>;
  /** The other one has found damage. */
  readonly stopped: AbortSignal;
}

async function cutAgainAndAgain({ directory, life, settings, hits, stopped }: Cycles): Promise<void> {
  const { story, cuts, reachesGoals, seed, environment, onCut, onDamage } = settings;
  const { plan } = story;
  const random = createRandom(seed);
  const aims = createAims(plan, life, { cuts, reachesGoals, hits });
  const spansMs = new Map<string, number>();
  const acknowledged = new Map<string, string>();
  const volumeUID = randomUUID();
  let former: Boot | undefined;
  for (let index = 0; !stopped.aborted; index += 1) {
    const aim = aims.next(former && plan.phaseOf(former.said, []));
    const last = aim === undefined;
    const cut = aim && planCut(plan, aim, random);
    const disk = former === undefined ? "Direct" : (cut?.disk ?? "Direct");
    writeFileSync(join(directory, "acknowledged.json"), JSON.stringify(Object.fromEntries(acknowledged)));
    const machine: MachineSettings = { directory, deviceClass: life.deviceClass, volumeUID, boot: index, last, disk };
    const now = await boot(machine, environment, cut && plannedCut(cut, spansMs)).catch((error: unknown) => {
      if (index > 0) onDamage({ seed, life: life.name, cuts: index });
      throw error;
    });
    if (former !== undefined) {
      const phase = plan.phaseOf(former.said, now.said);
      hits.set(phase, (hits.get(phase) ?? 0) + 1);
      const behind = now.said.filter((line) => isSaid(line, "behind"));
      onCut([`${life.name}, cut ${index}: ${former.disk}, ${phase}`, ...behind].join("; "));
    }
    if (last) return;
    for (const line of now.said) noteRecord(acknowledged, line);
    noteSpans(spansMs, plan.spans, now);
    former = now;
  }
}

function plannedCut(cut: Cut, spansMs: ReadonlyMap<string, number>): PlannedCut {
  return { cut, delayMs: cut.share * (spansMs.get(spanOf(cut)) ?? FIRST_GUESS_MS) };
}

function noteRecord(acknowledged: Map<string, string>, line: string): void {
  const [what, name = "", sum = ""] = line.split(" ");
  if (what === "acknowledged") acknowledged.set(name, sum);
  if (what === "gone") acknowledged.delete(name);
}

/** How long it took from what a cut follows to what it precedes. */
function noteSpans(spansMs: Map<string, number>, spans: readonly Span[], { said, atMs }: Boot): void {
  for (const span of spans) {
    const from = said.findIndex((line) => isSaid(line, span.line));
    const until = said.findIndex((line, index) => index > from && isSaid(line, span.until));
    if (from >= 0 && until >= 0) spansMs.set(spanOf(span), (atMs[until] ?? 0) - (atMs[from] ?? 0));
  }
}

function spanOf({ line, until }: Span): string {
  return `${line} ${until}`;
}
