// How long a filesystem stays over its threshold before it is larger: the real processes, a real writer, an observer that looks
// every millisecond. CELLS=100x4,300x1 (MB/s x GiB) and SAMPLES=6 shorten it. On loop files, and on logical volumes: real LVM commands by
// lvmd, on volumes that are loop devices where there is no device-mapper.

import { LOOP_CLASS_NAME } from "../demo/stand-ins/bootstrap.ts";
import { LVM_CLASS_NAME } from "../test/harness/lvm-of-stack.ts";
import { type Stack, startStack } from "../test/harness/stack.ts";
import { type Benchmark, quantile, round, type Say, settingFromEnvironment } from "./benchmark.ts";
import {
  type Cell,
  crossByEmergency,
  crossByRule,
  crossingsPerVolume,
  type Instruments,
  type VolumeResult,
} from "./crossing/cell.ts";
import { startLineProcess } from "./crossing/line-process.ts";

const RATES_MBPS = [10, 100, 300];
const SIZES_GIB = [1, 4, 16];
const SAMPLES_PER_CELL = 30;
const EMERGENCIES_PER_CELL = 4;

interface CellResult {
  readonly cell: Cell;
  readonly ruled: readonly VolumeResult[];
  readonly emergencies: readonly VolumeResult[];
}

const LVM_GROUP_BYTES = 2 ** 41;
const EXTENDS_ALONE = 20;

export const crossingBenchmark: Benchmark = async (say) => {
  const stack = await startStack();
  return measureAll({ stack, storageClassName: LOOP_CLASS_NAME }, say);
};

export const crossingLvmBenchmark: Benchmark = async (say) => {
  const stack = await startStack({ lvm: { groupBytes: LVM_GROUP_BYTES } });
  const lvextendP50Ms = await lvextendAlone(stack);
  say(`LVM's own lvextend takes ${lvextendP50Ms} ms (p50 of ${EXTENDS_ALONE})`);
  return { ...(await measureAll({ stack, storageClassName: LVM_CLASS_NAME }, say)), lvextendP50Ms };
};

/** The command that each of the crossings waits for. */
async function lvextendAlone({ lvm }: Stack): Promise<number> {
  if (lvm === undefined) throw new Error("this stack has no LVM");
  const volume = `${lvm.group}/alone`;
  await lvm.ground.lvm("lvcreate", "--yes", "--name", "alone", "--size", "64m", lvm.group);
  const durationsMs: number[] = [];
  for (let index = 0; index < EXTENDS_ALONE; index += 1) {
    const startMs = performance.now();
    await lvm.ground.lvm("lvresize", "--size", "+64m", volume);
    durationsMs.push(performance.now() - startMs);
  }
  await lvm.ground.lvm("lvremove", "--force", volume);
  return round(quantile(durationsMs, 0.5), 1);
}

async function measureAll(place: Pick<Instruments, "stack" | "storageClassName">, say: Say) {
  const samples = settingFromEnvironment("SAMPLES", SAMPLES_PER_CELL);
  const instruments: Instruments = {
    ...place,
    sampler: startLineProcess("sampler-process.ts"),
    writer: startLineProcess("writer-process.ts"),
  };
  const results: CellResult[] = [];
  try {
    for (const cell of chosenCells(process.env["CELLS"])) {
      results.push(await measure(instruments, cell, samples));
      sayCell(results[results.length - 1] as CellResult, say);
    }
  } catch (error) {
    say(instruments.stack.tellLogs());
    throw error;
  } finally {
    instruments.sampler.end();
    instruments.writer.end();
    await instruments.stack.close();
  }
  return summary(results);
}

function chosenCells(text: string | undefined): Cell[] {
  if (text === undefined || text === "")
    return SIZES_GIB.flatMap((sizeGiB) => RATES_MBPS.map((rateMBps) => ({ rateMBps, sizeGiB })));
  return text.split(",").map((part) => {
    const match = /^(\d+)x(\d+)$/.exec(part);
    if (match === null) throw new Error(`CELLS=${text}: "${part}" is not MB/s x GiB, such as 100x4`);
    return { rateMBps: Number(match[1]), sizeGiB: Number(match[2]) };
  });
}

/** Volumes take turns with a buffered and a synced writer. */
async function measure(instruments: Instruments, cell: Cell, samples: number): Promise<CellResult> {
  const ruled: VolumeResult[] = [];
  const volumes = Math.ceil(samples / crossingsPerVolume(cell));
  for (let index = 0; index < volumes; index += 1)
    ruled.push(await crossByRule(instruments, cell, nameOf(cell, "rule", index), index % 2 === 1));
  const emergencies: VolumeResult[] = [];
  for (let index = 0; index < Math.min(samples, EMERGENCIES_PER_CELL); index += 1)
    emergencies.push(await crossByEmergency(instruments, cell, nameOf(cell, "emergency", index), index % 2 === 1));
  return { cell, ruled, emergencies };
}

function nameOf({ rateMBps, sizeGiB }: Cell, kind: string, index: number): string {
  return `${kind}-${rateMBps}-${sizeGiB}-${index}`;
}

function summary(results: readonly CellResult[]): Readonly<Record<string, unknown>> {
  const cells = results.map(cellSummary);
  const all = results.flatMap(({ ruled }) => durationsOf(ruled));
  return {
    n: all.length,
    p50Ms: Math.max(...cells.map(({ p50Ms }) => p50Ms)),
    p99Ms: Math.max(...cells.map(({ p99Ms }) => p99Ms)),
    maxMs: round(Math.max(...all), 1),
    emergencyP99Ms: round(
      quantile(
        results.flatMap(({ emergencies }) => durationsOf(emergencies)),
        0.99,
      ),
      1,
    ),
    cells,
  };
}

function cellSummary({ cell, ruled, emergencies }: CellResult) {
  return {
    ...cell,
    ...figures(durationsOf(ruled)),
    emergency: figures(durationsOf(emergencies)),
    buffered: loadFigures(ruled, false),
    synced: loadFigures(ruled, true),
  };
}

function figures(durationsMs: readonly number[]) {
  return {
    n: durationsMs.length,
    p50Ms: round(quantile(durationsMs, 0.5), 1),
    p99Ms: round(quantile(durationsMs, 0.99), 1),
    maxMs: round(Math.max(...durationsMs), 1),
  };
}

function loadFigures(results: readonly VolumeResult[], synced: boolean) {
  const chosen = results.filter(({ crossings }) => crossings[0]?.synced === synced);
  const mean = (pick: (result: VolumeResult) => number): number =>
    round(chosen.reduce((sum, result) => sum + pick(result), 0) / chosen.length / 1_000_000, 1);
  return {
    ...figures(durationsOf(chosen)),
    offeredMBps: mean(({ written }) => written.offeredBytesPerSecond),
    achievedMBps: mean(({ written }) => written.achievedBytesPerSecond),
  };
}

function durationsOf(results: readonly VolumeResult[]): number[] {
  return results.flatMap(({ crossings }) => crossings.map(({ durationMs }) => durationMs));
}

function sayCell(result: CellResult, say: Say): void {
  const { rateMBps, sizeGiB, n, p50Ms, p99Ms, maxMs, emergency, buffered, synced } = cellSummary(result);
  say(
    `${rateMBps} MB/s on ${sizeGiB} GiB: n ${n}, p50 ${p50Ms}, p99 ${p99Ms}, max ${maxMs} ms; emergency max ${emergency.maxMs} ms; ` +
      `achieved ${buffered.achievedMBps} MB/s buffered, ${synced.achievedMBps} MB/s synced`,
  );
}
