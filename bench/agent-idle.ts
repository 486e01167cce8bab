// What an agent costs while nothing happens: 100 mounted filesystems under a policy, half btrfs and half ext4, sampled and streamed
// as ever, for a minute.
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { LOOP_CLASS_NAME } from "../demo/stand-ins/bootstrap.ts";
import { STORAGE_CLASSES } from "../src/contracts/kubernetes/resources.ts";
import { LOCAL_DRIVER } from "../src/contracts/names.ts";
import { type Stack, startStack } from "../test/harness/stack.ts";
import { applyPolicy, createVolume } from "../test/harness/volume.ts";
import { type Benchmark, round, type Say, settingFromEnvironment } from "./benchmark.ts";

const FILESYSTEMS = 100;
const BATCH = 10;
const SETTLE_MS = 15_000;
const IDLE_SECONDS = 60;
/** On disk: 100 members promise more bytes than memory has, and the agent makes no promise that it cannot keep. */
const BASE = "/var/tmp/tidemark-bench";
const EXT4_CLASS_NAME = "tidemark-loop-ext4";
/** CLK_TCK: what /proc/PID/stat counts in on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

export const agentIdleBenchmark: Benchmark = async (say) => {
  const idleMs = settingFromEnvironment("IDLE_SECONDS", IDLE_SECONDS) * 1000;
  const stack = await startStack({ base: BASE, initialSize: "256Mi" });
  try {
    await mountAll(stack, say);
    await sleep(SETTLE_MS);
    const { pid } = stack.processes.agent;
    const [startMs, startCpuMs] = [performance.now(), cpuMsOf(pid)];
    await sleep(idleMs);
    const cpuRatio = (cpuMsOf(pid) - startCpuMs) / (performance.now() - startMs);
    const rssMiB = rssMiBOf(pid);
    say(
      `${FILESYSTEMS} filesystems, ${idleMs / 1000} s at rest: ${round(cpuRatio * 100, 2)}% of a core, ${round(rssMiB, 1)} MiB`,
    );
    return { filesystems: FILESYSTEMS, cpuRatio: round(cpuRatio, 5), rssMiB: round(rssMiB, 1) };
  } finally {
    await stack.close();
  }
};

async function mountAll(stack: Stack, say: Say): Promise<void> {
  await applyPolicy(stack, "default", {
    limits: { min: "256Mi", max: "1Gi" },
    rules: [
      { name: "extend-at-80", action: "Extend", when: "volume.usedRatio >= 0.8", targetUsed: "60%" },
      { name: "shrink-below-10", action: "Shrink", when: "volume.usedRatioMax('1h') < 0.1", targetUsed: "50%" },
    ],
  });
  await stack.client.create("bench/create-class", STORAGE_CLASSES, {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name: EXT4_CLASS_NAME },
    provisioner: LOCAL_DRIVER,
    parameters: { backend: "loop", "csi.storage.k8s.io/fstype": "ext4" },
    reclaimPolicy: "Delete",
    allowVolumeExpansion: true,
    volumeBindingMode: "Immediate",
  });
  const startMs = performance.now();
  for (let first = 0; first < FILESYSTEMS; first += BATCH)
    await Promise.all(
      Array.from({ length: BATCH }, (_, offset) => {
        const index = first + offset;
        const storageClassName = index % 2 === 0 ? LOOP_CLASS_NAME : EXT4_CLASS_NAME;
        return createVolume(stack, `idle-${index}`, { request: "256Mi", storageClassName });
      }),
    );
  say(`${FILESYSTEMS} filesystems mounted in ${round((performance.now() - startMs) / 1000, 1)} s`);
}

/** User and system time of the process, its ended children not counted: fields 14 and 15 of proc(5). */
function cpuMsOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_SECOND;
}

function rssMiBOf(pid: number): number {
  const kibibytes = /^Rss:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))?.[1];
  return Number(kibibytes) / 1024;
}
