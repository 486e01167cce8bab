// The kill matrix: which effect points each process passes in each phase of a volume's life, and lives in which processes are
// ended by SIGKILL at some of them. The points come from a clean run, so that a new side effect is killed at without being listed.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { LEASES } from "../../src/contracts/kubernetes/resources.ts";
import { type DoomedProcess, passagesIn, startDoomed } from "./doomed-process.ts";
import { type Life, live, type Phase } from "./lifecycle.ts";
import { STACK_PROCESSES, type Stack, type StackProcess } from "./stack.ts";
import { untilQuiet } from "./until-quiet.ts";

export interface KillPoint {
  readonly life: Life;
  readonly phase: Phase;
  readonly owner: StackProcess;
  /** "operation/step/before" or "operation/step/after". */
  readonly passage: string;
}

/** What a phase's last effects take to come, once the world shows its end. */
const DEATH_LIMIT_MS = 10_000;
/** Processes without an effect for so long have come to the end of what the phase made them do. */
const QUIET_MS = 1000;
const LEASE_NAMES: Readonly<Partial<Record<StackProcess, string>>> = {
  operator: "tidemark-operator",
  "policy-engine": "tidemark-policy-engine",
};

/** Lives one life without a fault and returns every passage of every process, by phase. Restarts the processes. */
export async function collectKillPoints(stack: Stack, life: Life): Promise<KillPoint[]> {
  const logPath = (owner: StackProcess): string => join(stack.directory, `${owner}.effects`);
  const found: KillPoint[] = [];
  const clear = (): void => {
    for (const owner of STACK_PROCESSES) writeFileSync(logPath(owner), "");
  };
  const restart = async (owner: StackProcess): Promise<void> => {
    await stack.processes[owner].stop();
    await stack.start(owner, { TIDEMARK_EFFECT_LOG: logPath(owner) });
  };
  for (const owner of STACK_PROCESSES) await restart(owner);
  await live(stack, life, `clean-${life}`, {
    before: async () => clear(),
    after: async (phase) => {
      for (const owner of STACK_PROCESSES)
        for (const passage of new Set(passagesIn(logPath(owner)))) found.push({ life, phase, owner, passage });
    },
  });
  return found;
}

/** Points by lives: each life has at most so many of one process in one phase, which lie as far from each other as can be. */
export function spreadOverLives(points: readonly KillPoint[], deathsAtOnce: number): KillPoint[][] {
  const names = new Set(points.map(({ phase, owner }) => `${phase} ${owner}`));
  const groups = [...names].map((name) => points.filter(({ phase, owner }) => `${phase} ${owner}` === name));
  const lives = Math.ceil(Math.max(0, ...groups.map(({ length }) => length)) / deathsAtOnce);
  return Array.from({ length: lives }, (_, life) =>
    groups.flatMap((group) => group.filter((_point, index) => index % lives === life)),
  );
}

/**
 * Lives one life in which each owner dies at its points, each in its phase, and is started again at once, as kubelet would. Returns those
 * at which it died; it did not come by the others in their phase. Throws where the life does not end as without deaths, or where a process
 * died elsewhere. `isAwaited`: the phase ends only after the death, unless nothing happens any more.
 */
export async function liveWithKills(
  stack: Stack,
  points: readonly KillPoint[],
  name: string,
  isAwaited: (passage: string) => boolean = () => true,
): Promise<KillPoint[]> {
  const [first] = points;
  if (first === undefined) return [];
  const fates = createFates(stack, points);
  try {
    await live(stack, first.life, name, {
      before: (phase) => fates.plant(phase),
      after: () => untilDead(fates.doomed(), isAwaited),
    });
    await fates.plant(undefined);
    return fates.died();
  } finally {
    await fates.end();
  }
}

/** The processes of one life, each doomed to its points of the present phase. */
function createFates(stack: Stack, points: readonly KillPoint[]) {
  const doomed = new Map<StackProcess, DoomedProcess>();
  const died: KillPoint[] = [];
  const pointsOf = (phase: Phase | undefined, owner: StackProcess): readonly KillPoint[] =>
    points.filter((point) => point.phase === phase && point.owner === owner);
  let present: Phase | undefined;
  /** What is planted and was not reached goes with its phase. */
  const release = async (owner: StackProcess): Promise<void> => {
    const one = doomed.get(owner);
    if (one === undefined) return;
    await one.ready();
    if (one.left().length > 0) await one.stop();
    doomed.delete(owner);
    died.push(...pointsOf(present, owner).filter(({ passage }) => one.diedAt().includes(passage)));
  };
  const plantIn = async (phase: Phase | undefined, owner: StackProcess): Promise<void> => {
    await release(owner);
    const passages = pointsOf(phase, owner).map(({ passage }) => passage);
    const { stop, running } = stack.processes[owner];
    if (passages.length > 0) await stop();
    if (!running()) await releaseLeaseOfDead(stack, owner);
    if (passages.length > 0) doomed.set(owner, await startDoomed(mortal(stack, owner), passages, stack.directory));
    else if (!running()) await stack.start(owner, {});
  };
  return {
    doomed: () => [...doomed.values()],
    died: () => died,
    plant: async (phase: Phase | undefined): Promise<void> => {
      await Promise.all(STACK_PROCESSES.map((owner) => plantIn(phase, owner)));
      present = phase;
    },
    /** Nothing of a life that failed is started again. */
    end: async (): Promise<void> => {
      for (const one of doomed.values()) await one.stop().catch(() => undefined);
    },
  };
}

function mortal(stack: Stack, owner: StackProcess) {
  return {
    name: owner,
    start: async (environment: Record<string, string>, afterDeath: boolean): Promise<void> => {
      if (afterDeath) await releaseLeaseOfDead(stack, owner);
      await stack.start(owner, environment);
    },
    ended: () => stack.processes[owner].ended(),
    stop: () => stack.processes[owner].stop(),
  };
}

/** Until the awaited deaths have come, or nothing more comes. */
async function untilDead(doomed: readonly DoomedProcess[], isAwaited: (passage: string) => boolean): Promise<void> {
  const limits = { quietMs: QUIET_MS, limitMs: DEATH_LIMIT_MS };
  await untilQuiet(doomed, limits, () => !doomed.some((one) => one.left().some(isAwaited)));
}

// A dead leader's Lease would be waited for, 15 s each time. It is known to be dead here.
export async function releaseLeaseOfDead(stack: Stack, owner: StackProcess): Promise<void> {
  const name = LEASE_NAMES[owner];
  if (name === undefined) return;
  const lease = { namespace: "tidemark-system", name };
  if ((await stack.client.get(LEASES, lease)) === undefined) return;
  await stack.client.mergePatch("test/release-lease", LEASES, lease, { spec: { holderIdentity: "" } });
}
