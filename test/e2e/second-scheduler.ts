// The component's second scheduler as a process of a cluster's control plane, where there is no node that would run its pod: the real
// kube-scheduler with the component's own configuration, but for where the extender is and how it reaches the API server.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse, parseAllDocuments, stringify } from "yaml";
import type { Cluster } from "../cluster/cluster-state.ts";
import { componentKubeconfig } from "../cluster/kubeconfig.ts";
import { enterNetwork } from "../cluster/network.ts";
import { startRecorded } from "../cluster/recorded-process.ts";

export const SECOND_SCHEDULER = "tidemark-scheduler";
const MANIFEST = fileURLToPath(new URL("../../kustomize/components/placement/scheduler.yaml", import.meta.url));
/** Beside the default scheduler's. */
const PORT = 10260;
const RETRY_FLAG = "--pod-max-in-unschedulable-pods-duration";

interface Configuration {
  readonly clientConnection: object;
  readonly extenders: readonly { readonly urlPrefix: string }[];
  readonly [field: string]: unknown;
}

/** `extenderUrl`: from within the cluster's network. */
export async function startSecondScheduler(cluster: Cluster, extenderUrl: string): Promise<void> {
  const { places, programs } = cluster;
  const written = componentConfiguration();
  const configuration = {
    ...written,
    leaderElection: { leaderElect: false },
    clientConnection: { ...written.clientConnection, kubeconfig: componentKubeconfig(places, "kube-scheduler") },
    // That one is on loopback, without TLS.
    extenders: written.extenders.map((one) => ({
      ...one,
      urlPrefix: extenderUrl,
      enableHTTPS: undefined,
      tlsConfig: undefined,
    })),
  };
  const path = join(places.directory, `${SECOND_SCHEDULER}.yaml`);
  writeFileSync(path, stringify(configuration));
  const [command, ...enter] = enterNetwork(places);
  const flags = [`--config=${path}`, "--bind-address=127.0.0.1", `--secure-port=${PORT}`, ...retryFlags()];
  const program = [programs["kube-scheduler"], ...flags];
  await startRecorded(places, { name: SECOND_SCHEDULER, command, args: [...enter, ...program] });
}

function componentConfiguration(): Configuration {
  const text = documents().find(({ kind }) => kind === "ConfigMap")?.data?.["config.yaml"];
  if (text === undefined) throw new Error(`${MANIFEST} has no configuration of the scheduler`);
  return parse(text) as Configuration;
}

/** When a pod is tried again that no node has taken is the component's word, too, and can only be said by a flag. */
function retryFlags(): string[] {
  const command = documents().find(({ kind }) => kind === "Deployment")?.spec?.template?.spec.containers[0]?.command;
  const flags = command?.filter((flag) => flag.startsWith(RETRY_FLAG)) ?? [];
  if (flags.length === 0) throw new Error(`${MANIFEST} has no ${RETRY_FLAG}`);
  return flags;
}

interface Manifest {
  readonly kind: string;
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: { readonly template?: { readonly spec: { readonly containers: readonly { command?: string[] }[] } } };
}

function documents(): Manifest[] {
  return parseAllDocuments(readFileSync(MANIFEST, "utf8")).map((one) => one.toJS() as Manifest);
}
