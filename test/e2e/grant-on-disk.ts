// The grant that an agent keeps on its node's own disk, from where it is spent when nobody else can be asked. Before it is there, an
// outage finds a volume with nothing to spend.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Cluster } from "../cluster/cluster-state.ts";
import { nodePlaces } from "../cluster/places.ts";
import { waitFor } from "../harness/wait-for.ts";

const LIMIT_MS = 180_000;

export async function grantIsOnDisk(
  { places }: Cluster,
  node: string,
  handle: string,
  otherwise: () => Promise<string>,
): Promise<void> {
  const path = join(nodePlaces(places, node).varLib, "tidemark/state/volumes", `${handle}.json`);
  const look = (): true | undefined =>
    existsSync(path) && readFileSync(path, "utf8").includes('"grant"') ? true : undefined;
  await waitFor(`a grant in ${path}`, look, { limitMs: LIMIT_MS, intervalMs: 300, otherwise });
}
