// A process that dies by SIGKILL at each of some passages, in whatever order it reaches them, and is started again at once each time, as
// kubelet would. The effect log of each start shows that it died there and nowhere else.
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Environment, ProcessEnd } from "./bundle-process.ts";

export interface MortalProcess {
  readonly name: string;
  /** Resolves when the process is ready, or dead. Its former one has ended; `afterDeath`: by SIGKILL. */
  start(environment: Environment, afterDeath: boolean): Promise<void>;
  /** Of the one that was started last. */
  ended(): Promise<ProcessEnd>;
  stop(): Promise<unknown>;
}

export interface DoomedProcess {
  /** Passages at which it has died, in the order of its deaths. */
  diedAt(): readonly string[];
  /** Those at which it has not died yet. */
  left(): readonly string[];
  /** What it has passed over all its starts. */
  passed(): readonly string[];
  /** Resolves when it is neither dead nor being started. Rejects where it died elsewhere, or did not come back. */
  ready(): Promise<void>;
  /** Of its present effect log: it grows with each effect. */
  logBytes(): number;
  /** Stops it and waits. A planted death on the way counts. Rejects as ready(). */
  stop(): Promise<void>;
}

/** `passages`: "operation/step/before" or "operation/step/after", with #N for the N-th passage of one start. */
export async function startDoomed(
  mortal: MortalProcess,
  passages: readonly string[],
  directory: string,
): Promise<DoomedProcess> {
  const left = new Set(passages);
  const diedAt: string[] = [];
  const logs: string[] = [];
  let stopping = false;
  let ready: Promise<void> = Promise.resolve();

  const start = (): Promise<void> => {
    const log = nextLog(directory, mortal.name);
    writeFileSync(log, "");
    logs.push(log);
    const environment: Record<string, string> = { TIDEMARK_EFFECT_LOG: log };
    if (left.size > 0) environment["TIDEMARK_FAULT"] = [...left].join(",");
    return mortal.start(environment, logs.length > 1);
  };
  const noteDeath = (): void => {
    const last = passagesIn(logs.at(-1) ?? "").at(-1);
    const planted = [...left].find((passage) => passage.replace(/#\d+$/, "") === last);
    if (planted === undefined) throw new Error(`${mortal.name} died after ${last}, not at ${[...left].join(", ")}`);
    left.delete(planted);
    diedAt.push(planted);
  };
  /** For as long as it comes back. */
  const attend = async (): Promise<void> => {
    for (;;) {
      ready = start();
      await ready;
      const { signal } = await mortal.ended();
      if (signal !== "SIGKILL") return;
      noteDeath();
      if (stopping) return;
    }
  };

  const attended = attend();
  attended.catch(() => undefined);
  const current = async (): Promise<void> => {
    for (let seen = -1; seen !== logs.length; ) {
      seen = logs.length;
      await Promise.race([ready, attended]);
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  await current();
  return {
    diedAt: () => diedAt,
    left: () => [...left],
    passed: () => logs.flatMap(passagesIn),
    ready: current,
    logBytes: () => logs.map((log) => statSync(log).size).reduce((sum, size) => sum + size, 0),
    stop: async () => {
      stopping = true;
      await Promise.race([ready, attended]);
      await mortal.stop();
      await attended;
    },
  };
}

let made = 0;

function nextLog(directory: string, name: string): string {
  made += 1;
  return join(directory, `${name}-${made}.effects`);
}

export function passagesIn(path: string): string[] {
  return readFileSync(path, "utf8").split("\n").filter(Boolean);
}
