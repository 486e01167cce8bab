// What processes have used of the processors, each by itself and with the programs that it has run to their end.
import { readFileSync } from "node:fs";
import type { Stack } from "../../test/harness/stack.ts";

/** By the process' name. */
export type CpuOfStack = Readonly<Record<string, CpuOfProcess>>;

export interface CpuOfProcess {
  readonly ownMs: number;
  /** Of its children, and theirs. */
  readonly programsMs: number;
}

/** CLK_TCK: what /proc/PID/stat counts in on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

export function cpuOfStack({ everyProcess }: Stack): CpuOfStack {
  return Object.fromEntries(everyProcess.map(({ name, pid }) => [name, cpuOf(pid)]));
}

export function cpuBetween(before: CpuOfStack, after: CpuOfStack): CpuOfStack {
  const none = { ownMs: 0, programsMs: 0 };
  return Object.fromEntries(
    Object.entries(after).map(([name, { ownMs, programsMs }]) => {
      const then = before[name] ?? none;
      return [name, { ownMs: ownMs - then.ownMs, programsMs: programsMs - then.programsMs }];
    }),
  );
}

/** User and system time: fields 14 to 17 of proc(5). */
export function cpuOf(pid: number): CpuOfProcess {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ms = (first: number): number => ((Number(fields[first]) + Number(fields[first + 1])) * 1000) / TICKS_PER_SECOND;
  return { ownMs: ms(11), programsMs: ms(13) };
}
