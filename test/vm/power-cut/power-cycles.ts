// A volume that lives through power cuts, one after the other on the same disks: each boot verifies what the cut before it has left, and is
// cut itself.
import { randomUUID } from "node:crypto";
import { copyFileSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundleOperation } from "../../integration/storage/bundled-operation.ts";
import { type Boot, boot, isSaid, type PlannedCut } from "./cut-machine.ts";
import { type Cut, createRandom, type Phase, phaseOf, planCut, SPANS } from "./cut-plan.ts";
import type { MachineSettings } from "./machine-settings.ts";

const MACHINE = new URL("machine.ts", import.meta.url);
const WRITER = fileURLToPath(new URL("writer.mjs", import.meta.url));
const DISKS = { data: 2 ** 31, state: 2 ** 26 } as const;
/** For what has not been measured yet. */
const FIRST_GUESS_MS = 150;

type DeviceClass = MachineSettings["deviceClass"];
const CLASSES: readonly DeviceClass[] = ["thick", "thin"];

export interface CyclesSettings {
  /** Of each device class; they run beside each other. */
  readonly cuts: number;
  readonly seed: number;
  /** The kernel's, for run-in-vm.sh. */
  readonly environment: Readonly<Record<string, string>>;
  /** Told of each, once it has been verified. */
  readonly onCut: (text: string) => void;
}

/** How many cuts hit each phase. Throws at the first damage. */
export async function livePowerCuts(settings: CyclesSettings): Promise<Map<Phase, number>> {
  const hits = new Map<Phase, number>();
  const stopped = new AbortController();
  const lives = CLASSES.map((deviceClass, index) =>
    liveAlone(deviceClass, { ...settings, seed: settings.seed + index }, hits, stopped.signal).catch(
      (error: unknown) => {
        stopped.abort();
        throw error;
      },
    ),
  );
  const failures = (await Promise.allSettled(lives)).flatMap((end) =>
    end.status === "rejected" ? [end.reason as unknown] : [],
  );
  if (failures.length > 0)
    throw new AggregateError(failures, `damaged, with the seed ${settings.seed}: ${failures.map(String).join("; ")}`);
  return hits;
}

async function liveAlone(
  deviceClass: DeviceClass,
  settings: CyclesSettings,
  hits: Map<Phase, number>,
  stopped: AbortSignal,
): Promise<void> {
  const directory = mkdtempSync("/dev/shm/tidemark-power-cut-");
  const { program, remove } = bundleOperation(MACHINE);
  try {
    copyFileSync(program, join(directory, "machine.cjs"));
    copyFileSync(WRITER, join(directory, "writer.mjs"));
    for (const [name, bytes] of Object.entries(DISKS)) {
      writeFileSync(join(directory, name), "");
      truncateSync(join(directory, name), bytes);
    }
    await cutAgainAndAgain({ directory, deviceClass, settings, hits, stopped });
  } finally {
    remove();
    rmSync(directory, { recursive: true, force: true });
  }
}

interface Cycles {
  readonly directory: string;
  readonly deviceClass: DeviceClass;
  readonly settings: CyclesSettings;
  readonly hits: Map<Phase, number>;
  /** The other one has found damage. */
  readonly stopped: AbortSignal;
}

async function cutAgainAndAgain({ directory, deviceClass, settings, hits, stopped }: Cycles): Promise<void> {
  const { cuts, seed, environment, onCut } = settings;
  const random = createRandom(seed);
  const spansMs = new Map<string, number>();
  const acknowledged = new Map<string, string>();
  const volumeUID = randomUUID();
  let former: Boot | undefined;
  for (let index = 0; index <= cuts && !stopped.aborted; index += 1) {
    const last = index === cuts;
    const cut = planCut(index, random);
    const disk = former === undefined || last ? "Direct" : cut.disk;
    writeFileSync(join(directory, "acknowledged.json"), JSON.stringify(Object.fromEntries(acknowledged)));
    const machine: MachineSettings = { directory, deviceClass, volumeUID, boot: index, last, disk };
    const now = await boot(machine, environment, last ? undefined : plannedCut(cut, spansMs));
    if (former !== undefined) {
      const phase = phaseOf(former.said, isCommitted(now));
      hits.set(phase, (hits.get(phase) ?? 0) + 1);
      const behind = now.said.filter((line) => isSaid(line, "behind"));
      onCut([`${deviceClass}, cut ${index}: ${former.disk}, ${phase}`, ...behind].join("; "));
    }
    for (const line of now.said) noteRecord(acknowledged, line);
    noteSpans(spansMs, now);
    former = now;
  }
}

function plannedCut(cut: Cut, spansMs: ReadonlyMap<string, number>): PlannedCut {
  return { cut, delayMs: cut.share * (spansMs.get(spanOf(cut)) ?? FIRST_GUESS_MS) };
}

/** By what the next boot found: the volume has the size that the open reduction asked for. */
function isCommitted({ said }: Boot): boolean {
  const text = said.find((line) => isSaid(line, "left"))?.slice("left ".length);
  const left = JSON.parse(text ?? "{}") as { lvBytes?: number; reduction?: { toBytes: number } | null };
  return left.lvBytes !== undefined && left.lvBytes === left.reduction?.toBytes;
}

function noteRecord(acknowledged: Map<string, string>, line: string): void {
  const [what, name = "", sum = ""] = line.split(" ");
  if (what === "acknowledged") acknowledged.set(name, sum);
  if (what === "gone") acknowledged.delete(name);
}

/** How long it took from what a cut follows to what it precedes. */
function noteSpans(spansMs: Map<string, number>, { said, atMs }: Boot): void {
  for (const span of SPANS) {
    const from = said.findIndex((line) => isSaid(line, span.line));
    const until = said.findIndex((line, index) => index > from && isSaid(line, span.until));
    if (from >= 0 && until >= 0) spansMs.set(spanOf(span), (atMs[until] ?? 0) - (atMs[from] ?? 0));
  }
}

function spanOf({ line, until }: Pick<Cut, "line" | "until">): string {
  return `${line} ${until}`;
}
