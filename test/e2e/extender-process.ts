// The extender as a process in a cluster's network, where there is no node that would run its pod: the bundle's own.
import type { Cluster } from "../cluster/cluster-state.ts";
import { componentKubeconfig } from "../cluster/kubeconfig.ts";
import { enterNetwork } from "../cluster/network.ts";
import { endRecorded, lastLines, startRecorded } from "../cluster/recorded-process.ts";
import { runProgram } from "../cluster/run-program.ts";
import { BUNDLE_PATH } from "../harness/bundle-process.ts";
import { waitFor } from "../harness/wait-for.ts";
import { filterAnswers } from "./extender-answers.ts";

const NAME = "extender";
const PORT = 9473;
const METRICS_PORT = 9474;
const URL = `http://127.0.0.1:${PORT}`;
const READY_LIMIT_MS = 180_000;

/** Whom the process is for the API server: the user of the cluster's scheduler, who has to be given what the extender reads. */
export const EXTENDER_USER = "system:kube-scheduler";

/** `flags`: beside those that it needs here. Resolves with where it is, from within the cluster's network, once it is ready. */
export async function startExtender(cluster: Cluster, flags: readonly string[] = []): Promise<string> {
  const { places } = cluster;
  const [command, ...enter] = enterNetwork(places);
  const kubeconfig = componentKubeconfig(places, "kube-scheduler");
  const own = [
    `--kubeconfig=${kubeconfig}`,
    "--http-host=127.0.0.1",
    `--http-port=${METRICS_PORT}`,
    `--extender-port=${PORT}`,
    "--extender-tls=Off",
  ];
  const args = [...enter, process.execPath, BUNDLE_PATH, "extender", ...own, ...flags];
  await startRecorded(places, { name: NAME, command, args });
  // It answers with an error until it is ready.
  await waitFor("the extender to be ready", () => ask(cluster, "/readyz"), {
    limitMs: READY_LIMIT_MS,
    otherwise: () => lastLines(places, NAME),
  });
  return URL;
}

/** As a rollout ends one. Resolves when it has ended: nobody answers then. */
export async function endExtender({ places }: Cluster): Promise<void> {
  await endRecorded(places, NAME, "SIGTERM");
}

/** How many questions the process that runs has answered with its nodes. */
export async function extenderAnswers(cluster: Cluster): Promise<number> {
  return filterAnswers(await ask(cluster, "/metrics"));
}

/** Throws what is no 200. */
function ask({ places }: Cluster, path: string): Promise<string> {
  const [command, ...enter] = enterNetwork(places);
  return runProgram(command, [...enter, "busybox", "wget", "-q", "-O", "-", `http://127.0.0.1:${METRICS_PORT}${path}`]);
}
