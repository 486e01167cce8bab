// Which processes are still the ones that were started: a pid may belong to another process by now, its start time makes it unique.
import { readdirSync, readFileSync } from "node:fs";

export interface ProcessIdentity {
  readonly pid: number;
  /** Start time in clock ticks since boot: field 22 of /proc/PID/stat (proc(5)). */
  readonly startTicks: number;
}

interface ProcessStat extends ProcessIdentity {
  readonly state: string;
  readonly processGroup: number;
}

/** Undefined when there is no such process, or only its zombie. */
export function identityOf(pid: number): ProcessIdentity | undefined {
  const stat = statOf(pid);
  return stat === undefined || stat.state === "Z" ? undefined : { pid, startTicks: stat.startTicks };
}

export function isAlive({ pid, startTicks }: ProcessIdentity): boolean {
  return identityOf(pid)?.startTicks === startTicks;
}

/**
 * Living processes of the leader's group that were started no earlier than it: commands that outlived the process that ran
 * them. A group keeps its number from reuse as long as it has members.
 */
export function groupMembers(leader: ProcessIdentity): ProcessIdentity[] {
  const reused = identityOf(leader.pid);
  if (reused !== undefined && reused.startTicks !== leader.startTicks) return [];
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => statOf(Number(name)))
    .filter((stat) => stat !== undefined)
    .filter((stat) => stat.processGroup === leader.pid && stat.startTicks >= leader.startTicks && stat.state !== "Z");
}

function statOf(pid: number): ProcessStat | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    return undefined;
  }
  // The second field is the program's name in brackets, and may hold spaces and brackets itself.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return {
    pid,
    state: fields[0] ?? "",
    processGroup: Number(fields[2]),
    startTicks: Number(fields[19]),
  };
}
