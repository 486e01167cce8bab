// Which of the files that a traced process put in their place by a rename outlive a power cut: the file is synced before the rename, its
// directory after it. Read from a trace of strace -y, which writes each descriptor with the path that it was opened by.
import { readFileSync } from "node:fs";
import { dirname } from "node:path";

export interface SyncedRename {
  /** The new name. */
  readonly path: string;
  /** A sync of the file had ended when the rename began. */
  readonly fileSynced: boolean;
  /** A sync of the directory began after the rename had ended, before this path was renamed again. */
  readonly directorySynced: boolean;
}

interface Call {
  readonly name: string;
  readonly rest: string;
  readonly begin: number;
  readonly end: number;
}

/** Those below the directory whose old name ends with ".new", in their order. A failed call counts as none. */
export function syncedRenames(tracePath: string, directory: string): SyncedRename[] {
  const calls = callsIn(readFileSync(tracePath, "utf8"));
  const syncsOf = (path: string): Call[] =>
    calls.filter(({ name, rest }) => /^f(data)?sync$/.test(name) && /^\d+<([^>]*)>/.exec(rest)?.[1] === path);
  const renames = calls.flatMap((call) => {
    const [from = "", to = ""] = [...call.rest.matchAll(/"([^"]*)"/g)].map(([, path]) => path);
    return call.name.startsWith("rename") && to.startsWith(`${directory}/`) && from === `${to}.new`
      ? [{ ...call, path: to }]
      : [];
  });
  return renames.map(({ path, begin, end }) => {
    const others = renames.filter((other) => other.path === path);
    const previous = Math.max(-1, ...others.map((other) => other.begin).filter((at) => at < begin));
    const next = Math.min(Number.POSITIVE_INFINITY, ...others.map((other) => other.begin).filter((at) => at > begin));
    return {
      path,
      fileSynced: syncsOf(`${path}.new`).some((sync) => sync.begin > previous && sync.end < begin),
      directorySynced: syncsOf(dirname(path)).some((sync) => sync.begin > end && sync.begin < next),
    };
  });
}

/** The calls that succeeded. One that another thread interrupted stands in two lines, of which the second has its end. */
function callsIn(trace: string): Call[] {
  const unfinished = new Map<string, Omit<Call, "end">>();
  const calls: Call[] = [];
  for (const [index, line] of trace.split("\n").entries()) {
    const [, pid = "", said = ""] = /^(\d+) +(.*)$/.exec(line) ?? [];
    const isDone = /\) += 0\b/.test(said);
    const [, name, rest = ""] = /^(\w+)\((.*)$/.exec(said) ?? [];
    const resumed = said.startsWith("<... ") ? unfinished.get(pid) : undefined;
    if (name !== undefined && rest.endsWith("<unfinished ...>")) unfinished.set(pid, { name, rest, begin: index });
    else if (name !== undefined && isDone) calls.push({ name, rest, begin: index, end: index });
    else if (resumed !== undefined && isDone) calls.push({ ...resumed, end: index });
  }
  return calls;
}
