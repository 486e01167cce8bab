// `make bench`: runs one benchmark, or all one after another. People read stderr; the last line of each on stdout is its JSON.
import type { Benchmark } from "./benchmark.ts";

const BENCHMARKS: Readonly<Record<string, () => Promise<Benchmark>>> = {
  decide: async () => (await import("./decide.ts")).decideBenchmark,
  "engine-cycle": async () => (await import("./engine-cycle.ts")).engineCycleBenchmark,
  compile: async () => (await import("./engine-cycle.ts")).compileBenchmark,
  "agent-idle": async () => (await import("./agent-idle.ts")).agentIdleBenchmark,
  crossing: async () => (await import("./crossing.ts")).crossingBenchmark,
  "crossing-lvm": async () => (await import("./crossing.ts")).crossingLvmBenchmark,
  "crossing-span": async () => (await import("./crossing-span.ts")).crossingSpanBenchmark,
  provision: async () => (await import("./provision.ts")).provisionBenchmark,
  "provision-span": async () => (await import("./provision-span.ts")).provisionSpanBenchmark,
  extender: async () => (await import("./extender.ts")).extenderBenchmark,
  policies: async () => (await import("./policies.ts")).policiesBenchmark,
  failover: async () => (await import("./failover.ts")).failoverBenchmark,
  lvmd: async () => (await import("./lvmd.ts")).lvmdBenchmark,
  "io-overhead": async () => (await import("./io-overhead.ts")).ioOverheadBenchmark,
  "shrink-stall": async () => (await import("./shrink-stall.ts")).shrinkStallBenchmark,
  "lvm-shrink": async () => (await import("./shrink-stall.ts")).lvmShrinkBenchmark,
};

async function main(): Promise<void> {
  const [asked] = process.argv.slice(2);
  const names = asked === undefined ? Object.keys(BENCHMARKS) : [asked];
  for (const name of names) {
    const load = BENCHMARKS[name];
    if (load === undefined) throw new Error(`no benchmark "${name}"; there are ${Object.keys(BENCHMARKS).join(", ")}`);
    const benchmark = await load();
    const result = await benchmark((line) => process.stderr.write(`${name}: ${line}\n`));
    process.stdout.write(`${JSON.stringify(result)}\n`);
  }
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    process.stderr.write(`bench: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
    process.exit(1);
  },
);
