// From claims to mounted filesystems on logical volumes, 100 at once: the real processes on the embedded control plane, LVM's real
// commands on volumes that are loop devices where there is no device-mapper; beside it the same commands by hand. N=20 shortens it.
import { setTimeout as sleep } from "node:timers/promises";
import { mountsUnder } from "../demo/show/run/mount-table.ts";
import { PERSISTENT_VOLUME_CLAIMS } from "../src/contracts/kubernetes/resources.ts";
import { GIB } from "../src/contracts/quantities/quantity.ts";
import { LVM_CLASS_NAME } from "../test/harness/lvm-of-stack.ts";
import { type Stack, startStack } from "../test/harness/stack.ts";
import { NAMESPACE } from "../test/harness/volume.ts";
import { type Benchmark, quantile, round, settingFromEnvironment } from "./benchmark.ts";
import { type Bare, provisionBare } from "./provision/bare.ts";
import { type CpuOfStack, cpuBetween, cpuOfStack } from "./provision/cpu.ts";
import { pollsSince } from "./provision/requests.ts";

const COUNT = 100;
/** Looking takes processor time from what is looked at. */
const LOOK_INTERVAL_MS = 100;
const LIMIT_MS = 600_000;

export const provisionBenchmark: Benchmark = async (say) => {
  const count = settingFromEnvironment("N", COUNT);
  const flags = { standalone: ["--log-level", "debug"] };
  const stack = await startStack({ flags, lvm: { groupBytes: (2 * count + 1) * GIB } });
  try {
    if (stack.lvm === undefined) throw new Error("this stack has no LVM");
    const before = await provisionBare(stack.lvm, `${stack.directory}/bare`, count, GIB);
    const [beganMs, cpuBefore] = [Date.now(), cpuOfStack(stack)];
    const stagedMs = await provisionAll(stack, count);
    const cpu = cpuBetween(cpuBefore, cpuOfStack(stack));
    const polls = pollsSince(stack.directory, beganMs);
    say(`${count} claims at once: p50 ${ms(stagedMs, 0.5)}, p99 ${ms(stagedMs, 0.99)} ms; ${polls.length} polls`);
    say(`CPU: ${tellCpu(cpu)}`);
    const after = await provisionBare(stack.lvm, `${stack.directory}/bare`, count, GIB);
    const bareMs = [...before.mountedMs, ...after.mountedMs];
    say(`lvcreate, mkfs and mount of ${count} at once, before and after: ${tellBare(before)}; ${tellBare(after)}`);
    for (const poll of new Set(polls)) say(`poll: ${poll}`);
    return {
      n: count,
      p50Ms: ms(stagedMs, 0.5),
      p99Ms: ms(stagedMs, 0.99),
      bareP50Ms: ms(bareMs, 0.5),
      bareP99Ms: ms(bareMs, 0.99),
      polls: polls.length,
      ...cpuFigures(cpu, [before, after]),
    };
  } catch (error) {
    say(stack.tellLogs());
    throw error;
  } finally {
    await stack.close();
  }
};

function ms(durationsMs: readonly number[], ratio: number): number {
  return round(quantile(durationsMs, ratio), 0);
}

function tellCpu(cpu: CpuOfStack): string {
  return Object.entries(cpu)
    .map(([name, { ownMs, programsMs }]) => `${name} ${seconds(ownMs)}, its programs ${seconds(programsMs)} s`)
    .join("; ");
}

function tellBare({ mountedMs, cpuMs }: Bare): string {
  return `p99 ${ms(mountedMs, 0.99)} ms, ${seconds(cpuMs)} s of CPU`;
}

/** Of a claim, each. */
function cpuFigures(cpu: CpuOfStack, bare: readonly Bare[]): Record<string, number> {
  const sum = (values: readonly number[]): number => values.reduce((all, one) => all + one, 0);
  const all = Object.values(cpu);
  const ofOne = (total: number): number => round(total / (bare[0]?.mountedMs.length ?? 1), 1);
  return {
    cpuMs: ofOne(sum(all.map(({ ownMs }) => ownMs))),
    programsCpuMs: ofOne(sum(all.map(({ programsMs }) => programsMs))),
    bareCpuMs: ofOne(sum(bare.map(({ cpuMs }) => cpuMs)) / bare.length),
  };
}

function seconds(durationMs: number): number {
  return round(durationMs / 1000, 2);
}

/** Of each claim, until its filesystem is mounted for its pod; mounts are seen in the kernel. */
async function provisionAll(stack: Stack, count: number): Promise<number[]> {
  const startMs = performance.now();
  const uids = await Promise.all(Array.from({ length: count }, (_, index) => createClaim(stack, `claim${index}`)));
  const stagedMs = new Map<string, number>();
  while (stagedMs.size < count) {
    const mounts = mountsUnder(`${stack.kubeletDirectory}/pods`);
    const nowMs = performance.now() - startMs;
    for (const uid of uids)
      if (!stagedMs.has(uid) && mounts.some((path) => path.includes(uid))) stagedMs.set(uid, nowMs);
    if (nowMs > LIMIT_MS) throw new Error(`${stagedMs.size} of ${count} volumes are mounted after ${LIMIT_MS} ms`);
    await sleep(LOOK_INTERVAL_MS);
  }
  return [...stagedMs.values()];
}

async function createClaim({ client }: Stack, name: string): Promise<string> {
  const claim = await client.create("bench/claim", PERSISTENT_VOLUME_CLAIMS, {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name, namespace: NAMESPACE },
    spec: {
      storageClassName: LVM_CLASS_NAME,
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: "1Gi" } },
    },
  });
  return claim.metadata.uid ?? "";
}
