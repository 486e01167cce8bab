// The kill matrix: which effect points each process passes in each phase of a volume's life, and the same life with one process
// ended by SIGKILL at one of them. The points come from a clean run, so that a new side effect is killed at without being listed.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { LEASES } from "../../src/kube/resources.ts";
import { type Life, live, type Phase } from "./lifecycle.ts";
import { STACK_PROCESSES, type Stack, type StackProcess } from "./stack.ts";

export interface KillPoint {
  readonly life: Life;
  readonly phase: Phase;
  readonly owner: StackProcess;
  /** "operation/step/before" or "operation/step/after". */
  readonly passage: string;
}

const DEATH_LIMIT_MS = 10_000;
const LOOK_INTERVAL_MS = 20;
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

/**
 * Lives one life in which the owner dies at the point and is started again at once, as kubelet would. Throws where the life does
 * not end as without it, or where the process died elsewhere. "not passed": it lived on, since it did not come by in that phase.
 */
export async function liveWithKill(stack: Stack, point: KillPoint, name: string): Promise<"died" | "not passed"> {
  const { owner, passage } = point;
  const process = stack.processes[owner];
  const logPath = join(stack.directory, `${name}.effects`);
  writeFileSync(logPath, "");
  const fate = { died: false };
  const revive = async (): Promise<void> => {
    const { signal } = await process.ended();
    if (signal !== "SIGKILL") return;
    fate.died = true;
    await releaseLeaseOfDead(stack, owner);
    await stack.start(owner, {});
  };
  let revived: Promise<void> = Promise.resolve();
  await live(stack, point.life, name, {
    before: async (phase) => {
      if (phase !== point.phase) return;
      await process.stop();
      const started = stack.start(owner, { TIDEMARK_FAULT: passage, TIDEMARK_EFFECT_LOG: logPath });
      revived = revive();
      await started;
    },
    after: async (phase) => {
      if (phase !== point.phase) return;
      await waitForDeath(fate);
      if (!fate.died) await process.stop();
      await revived; // it may have died at its end
      if (!fate.died) await stack.start(owner, {});
    },
  });
  const last = passagesIn(logPath).at(-1);
  if (!fate.died) return "not passed";
  if (last !== passage) throw new Error(`${owner} died after ${last}, not at ${passage}`);
  return "died";
}

/** Some points are passed only now and then, such as the lease's renewal: the process is given the time for it. */
async function waitForDeath(fate: { readonly died: boolean }): Promise<void> {
  const deadlineMs = performance.now() + DEATH_LIMIT_MS;
  while (!fate.died && performance.now() < deadlineMs) await sleep(LOOK_INTERVAL_MS);
}

function passagesIn(path: string): string[] {
  return readFileSync(path, "utf8").split("\n").filter(Boolean);
}

// A dead leader's Lease would be waited for, 15 s each time. It is known to be dead here.
export async function releaseLeaseOfDead(stack: Stack, owner: StackProcess): Promise<void> {
  const name = LEASE_NAMES[owner];
  if (name === undefined) return;
  const lease = { namespace: "tidemark-system", name };
  if ((await stack.client.get(LEASES, lease)) === undefined) return;
  await stack.client.mergePatch("test/release-lease", LEASES, lease, { spec: { holderIdentity: "" } });
}
