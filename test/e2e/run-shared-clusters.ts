// Runs the suites of the shared clusters that are named, or of all of them: each cluster is made once, and made anew after a suite that
// has failed, so that no suite fails by what another one has left. Says how long each part took.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { removeCluster } from "../cluster/cluster.ts";
import type { Cluster } from "../cluster/cluster-state.ts";
import { createSharedCluster, SHARED_CLUSTERS, type SharedCluster } from "./shared-clusters.ts";

const NODE_OPTIONS = "--experimental-vm-modules --disable-warning=ExperimentalWarning";

interface Timing {
  readonly name: string;
  readonly seconds: number;
  readonly passed: boolean;
}

async function timed(name: string, work: () => Promise<boolean>): Promise<Timing> {
  const startMs = performance.now();
  const passed = await work();
  const seconds = Math.round((performance.now() - startMs) / 1000);
  process.stderr.write(`shared: ${name} ${passed ? "took" : "FAILED after"} ${seconds} s\n`);
  return { name, seconds, passed };
}

async function runAll(shared: SharedCluster): Promise<Timing[]> {
  const timings: Timing[] = [];
  let cluster: Cluster | undefined;
  try {
    for (const suite of shared.suites) {
      if (cluster === undefined)
        timings.push(
          await timed(`cluster "${shared.name}"`, async () => {
            cluster = await createSharedCluster(shared);
            return true;
          }),
        );
      const { places } = cluster as unknown as Cluster;
      const timing = await timed(suite, () => runSuite(suite, places.kubeconfig));
      timings.push(timing);
      if (timing.passed) continue;
      await removeCluster(places);
      cluster = undefined;
    }
  } finally {
    if (cluster !== undefined) await removeCluster(cluster.places);
  }
  return timings;
}

async function runSuite(path: string, kubeconfig: string): Promise<boolean> {
  const jest = spawn("node_modules/.bin/jest", ["--runInBand", path], {
    stdio: "inherit",
    env: { ...process.env, KUBECONFIG: kubeconfig, NODE_OPTIONS },
  });
  const [status] = (await once(jest, "exit")) as [number | null];
  return status === 0;
}

const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !SHARED_CLUSTERS.some((shared) => shared.name === name));
if (unknown.length > 0) throw new Error(`no shared cluster "${unknown.join('", "')}"`);
const timings: Timing[] = [];
for (const shared of SHARED_CLUSTERS)
  if (asked.length === 0 || asked.includes(shared.name)) timings.push(...(await runAll(shared)));
for (const { name, seconds, passed } of timings)
  process.stdout.write(`${passed ? "ok    " : "FAILED"} ${String(seconds).padStart(5)} s  ${name}\n`);
if (timings.some(({ passed }) => !passed)) process.exitCode = 1;
