// What a shared cluster looked like before any suite used it, kept in its directory: after each suite it has to look so again.
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ConnectedKubeClient } from "../../src/platform/kube/client/http-client.ts";
import type { Cluster } from "../cluster/cluster-state.ts";
import type { ClusterPlaces } from "../cluster/places.ts";
import { waitFor } from "../harness/wait-for.ts";
import type { ClusterUnderTest } from "./cluster-under-test.ts";
import { whatStands } from "./what-stands.ts";

/** For what is on its way out, or on its way back: a node's lease, a rollout, kubelet's clearing away. */
const LEAVING_LIMIT_MS = 60_000;
/** An operator that has just started writes one thing after another. */
const QUIET_LIMIT_MS = 120_000;
const QUIET_MS = 4_000;

interface SharedState {
  /** The overlay that Tidemark is installed from. */
  readonly overlay: string;
  /** Lines of `whatStands`. */
  readonly stands: readonly string[];
}

export function isShared(places: ClusterPlaces): boolean {
  return existsSync(stateFile(places));
}

export function standingOverlay(places: ClusterPlaces): string {
  return readState(places).overlay;
}

/** From now on the cluster is shared. Resolves when nothing moves in it any more. */
export async function rememberState(
  cluster: Cluster,
  client: ConnectedKubeClient,
  kubectl: ClusterUnderTest["kubectl"],
  overlay: string,
): Promise<void> {
  let before: readonly string[] = [];
  const stands = await waitFor(
    "a prepared cluster to stand still",
    async () => {
      const now = await whatStands(cluster, client, kubectl);
      const isSame = difference(before, now).length === 0;
      before = now;
      return isSame ? now : undefined;
    },
    { limitMs: QUIET_LIMIT_MS, intervalMs: QUIET_MS },
  );
  const path = stateFile(cluster.places);
  const state: SharedState = { overlay, stands };
  writeFileSync(`${path}.new`, JSON.stringify(state, undefined, 1));
  renameSync(`${path}.new`, path);
}

/** Rejects with what is too much and what is missing. */
export async function leftAsItWas(
  cluster: Cluster,
  client: ConnectedKubeClient,
  kubectl: ClusterUnderTest["kubectl"],
): Promise<void> {
  const { stands } = readState(cluster.places);
  let changed: readonly string[] = [];
  await waitFor(
    "the shared cluster to be as it was before this suite",
    async () => {
      changed = difference(stands, await whatStands(cluster, client, kubectl));
      return changed.length === 0 ? true : undefined;
    },
    {
      limitMs: LEAVING_LIMIT_MS,
      intervalMs: 1000,
      otherwise: () => `- is missing, + is left:\n${changed.join("\n")}`,
    },
  );
}

/** "- line" of `before` alone, "+ line" of `now` alone. */
export function difference(before: readonly string[], now: readonly string[]): string[] {
  const [hadBefore, hasNow] = [new Set(before), new Set(now)];
  return [
    ...before.filter((line) => !hasNow.has(line)).map((line) => `- ${line}`),
    ...now.filter((line) => !hadBefore.has(line)).map((line) => `+ ${line}`),
  ];
}

function readState(places: ClusterPlaces): SharedState {
  return JSON.parse(readFileSync(stateFile(places), "utf8")) as SharedState;
}

function stateFile({ directory }: ClusterPlaces): string {
  return join(directory, "shared.json");
}
