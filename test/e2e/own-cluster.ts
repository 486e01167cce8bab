// A cluster that one test process makes for itself. Its directory is named after the process, so that suites do not meet, and so
// that the cluster of a suite which was killed is found and removed by the next.
import { existsSync, readdirSync } from "node:fs";
import { basename, dirname } from "node:path";
import { identityOf, isAlive } from "../../demo/show/run/process-table.ts";
import { createCluster, removeCluster } from "../cluster/cluster.ts";
import type { Cluster, ClusterSettings } from "../cluster/cluster-state.ts";
import { DEFAULT_SETTINGS } from "../cluster/config.ts";
import { clusterPlaces } from "../cluster/places.ts";

const PREFIX = `${DEFAULT_SETTINGS.directory}-e2e-`;

/**
 * Rejects with nothing left of it. `settings`: where it is to be another one than most suites need. `name`: in small letters, of one of
 * several that the process has at a time.
 */
export async function createOwnCluster(settings: Partial<ClusterSettings> = {}, name = ""): Promise<Cluster> {
  await removeAbandoned();
  const directory = `${PREFIX}${process.pid}-${identityOf(process.pid)?.startTicks ?? 0}${name === "" ? "" : `-${name}`}`;
  try {
    return await createCluster({ ...DEFAULT_SETTINGS, ...settings, directory }, (line) =>
      process.stderr.write(`cluster: ${line}\n`),
    );
  } catch (error) {
    await removeCluster(clusterPlaces(directory));
    throw error;
  }
}

async function removeAbandoned(): Promise<void> {
  if (!existsSync(dirname(PREFIX))) return;
  for (const name of readdirSync(dirname(PREFIX))) {
    if (!name.startsWith(basename(PREFIX))) continue;
    const [, own, pid, startTicks] =
      /^((\d+)-(\d+)(?:-[a-z0-9-]+)?)(?:\.lock)?$/.exec(name.slice(basename(PREFIX).length)) ?? [];
    if (own === undefined) continue;
    if (!isAlive({ pid: Number(pid), startTicks: Number(startTicks) }))
      await removeCluster(clusterPlaces(`${PREFIX}${own}`));
  }
}
