// The extender as a process in a cluster's network, where there is no node that would run its pod: the bundle's own.
import type { Cluster } from "../cluster/cluster-state.ts";
import { componentKubeconfig } from "../cluster/kubeconfig.ts";
import { enterNetwork } from "../cluster/network.ts";
import { lastLines, startRecorded } from "../cluster/recorded-process.ts";
import { runProgram } from "../cluster/run-program.ts";
import { BUNDLE_PATH } from "../harness/bundle-process.ts";
import { waitFor } from "../harness/wait-for.ts";

const NAME = "extender";
const PORT = 9473;
const READY_LIMIT_MS = 180_000;

/** Whom the process is for the API server: the user of the cluster's scheduler, who has to be given what the extender reads. */
export const EXTENDER_USER = "system:kube-scheduler";

/** Resolves with where it is, from within the cluster's network, once it is ready. */
export async function startExtender({ places }: Cluster): Promise<string> {
  const [command, ...enter] = enterNetwork(places);
  const url = `http://127.0.0.1:${PORT}`;
  const kubeconfig = componentKubeconfig(places, "kube-scheduler");
  const flags = [`--kubeconfig=${kubeconfig}`, "--http-host=127.0.0.1", `--http-port=${PORT}`];
  const args = [...enter, process.execPath, BUNDLE_PATH, "extender", ...flags];
  await startRecorded(places, { name: NAME, command, args });
  // It answers with an error until it is ready.
  const ask = [...enter, "busybox", "wget", "-q", "-O", "-", `${url}/readyz`];
  const look = async (): Promise<true> => runProgram(command, ask).then(() => true);
  await waitFor("the extender to be ready", look, {
    limitMs: READY_LIMIT_MS,
    otherwise: () => lastLines(places, NAME),
  });
  return url;
}
