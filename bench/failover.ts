// From the cut of a node's power until the pod that ran there with a span of three members runs on the other node, its files
// whole. The node is tainted out-of-service at once, as its administrator would who knows that it is off. RUNS=1 shortens it.
import { type ClusterUnderTest, clusterOf } from "../test/e2e/cluster-under-test.ts";
import { type Benchmark, quantile, round, type Say, settingFromEnvironment } from "./benchmark.ts";
import { withSpanCluster } from "./cluster/span-cluster.ts";
import { type Failover, failOver } from "./failover/fail-over.ts";
import { powerBack } from "./failover/lost-node.ts";
import { MEMBERS, startWriter } from "./failover/writer-on-span.ts";

const RUNS = 3;

export const failoverBenchmark: Benchmark = async (say) => {
  const runs = settingFromEnvironment("RUNS", RUNS);
  const done = await withSpanCluster(say, (tested) => measure(tested, runs, say));
  const median = (pick: (one: Failover) => number): number => round(quantile(done.map(pick), 0.5), 0);
  return {
    members: MEMBERS,
    n: done.length,
    ms: median(({ ms }) => ms),
    maxMs: round(Math.max(...done.map(({ ms }) => ms)), 0),
    ...{ letGoMs: median(({ letGoMs }) => letGoMs), detachMs: median(({ detachMs }) => detachMs) },
    ...{ attachMs: median(({ attachMs }) => attachMs), stageMs: median(({ stageMs }) => stageMs) },
    afterLetGoMs: median(({ ms, letGoMs }) => ms - letGoMs),
    maxAfterLetGoMs: round(Math.max(...done.map(({ ms, letGoMs }) => ms - letGoMs)), 0),
  };
};

async function measure(tested: ClusterUnderTest, runs: number, say: Say): Promise<Failover[]> {
  const cluster = clusterOf(tested);
  const writer = await startWriter(tested);
  const done: Failover[] = [];
  for (let run = 0; run < runs; run += 1) {
    const failover = await failOver(tested, cluster);
    const damaged = await writer.damaged();
    if (damaged !== "") throw new Error(`after ${failover.from} was lost, on ${failover.to}: ${damaged}`);
    done.push(failover);
    sayFailover(failover, say);
    await powerBack(tested, cluster, failover.from);
  }
  return done;
}

function sayFailover({ from, to, ms, marks, lost, ...parts }: Failover, say: Say): void {
  const seen = Object.entries(marks).map(([name, atMs]) => `${name} ${round(atMs, 0)}`);
  say(`${from} lost with ${lost.join(" and ") || "no leader"}; on ${to} after ${round(ms, 0)} ms: ${seen.join(", ")}`);
  const { letGoMs, detachMs, attachMs, stageMs } = parts;
  const figures = [letGoMs, detachMs, attachMs, stageMs].map((part) => round(part, 0));
  say(`until the pod was let go of ${figures[0]}, detach ${figures[1]}, attach ${figures[2]}, stage ${figures[3]} ms`);
}
