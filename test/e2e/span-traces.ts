// What there is of spans, in the API and on the nodes of a cluster of ours: what must be there for one in use, and what must not
// for one that is gone.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { mountsUnder } from "../../demo/show/run/mount-table.ts";
import { FILESYSTEMS } from "../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../src/contracts/kinds/filesystem-layout.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  VOLUME_ATTACHMENTS,
} from "../../src/contracts/kubernetes/resources.ts";
import { MEMBER_LABEL, MEMBER_NAMESPACE, RECORDS, SPAN_DRIVER } from "../../src/contracts/names.ts";
import type { Cluster } from "../cluster/cluster-state.ts";
import { KUBELET_DIRECTORY } from "../cluster/node-settings.ts";
import { nodePlaces } from "../cluster/places.ts";
import { onlyChild, runningProcess } from "../cluster/recorded-process.ts";
import { memberDirectoryOf } from "../member-driver/install.ts";
import { readRpcLog } from "../member-driver/rpc-log.ts";
import { createVolumeFiles } from "../member-driver/volume-files.ts";
import type { ClusterUnderTest } from "./cluster-under-test.ts";

/** Member names by kind of object, as their labels say; an attachment with its node and whether it is attached. */
export interface MemberObjects {
  readonly claims: readonly string[];
  readonly volumes: readonly string[];
  readonly attachments: readonly string[];
}

export async function memberObjects({ client }: Pick<ClusterUnderTest, "client">): Promise<MemberObjects> {
  const labelSelector = RECORDS.volumeUID;
  const [claims, volumes, attachments] = await Promise.all([
    client.list(PERSISTENT_VOLUME_CLAIMS, { namespace: MEMBER_NAMESPACE }),
    client.list(PERSISTENT_VOLUMES, { labelSelector }),
    client.list(VOLUME_ATTACHMENTS, { labelSelector }),
  ]);
  const nameOf = (labels: Record<string, string> | undefined): string => labels?.[MEMBER_LABEL] ?? "nobody's";
  return {
    claims: claims.items.map(({ metadata }) => nameOf(metadata.labels)).sort(),
    volumes: volumes.items.map(({ metadata }) => nameOf(metadata.labels)).sort(),
    attachments: attachments.items
      .map(({ metadata, spec, status }) => {
        const state = status?.attached === true ? "attached" : "on its way";
        return `${nameOf(metadata.labels)} to ${spec.nodeName}: ${state}`;
      })
      .sort(),
  };
}

/** Every object that any span has, by kind and name. */
export async function spanObjects(tested: Pick<ClusterUnderTest, "client" | "namespace">): Promise<string[]> {
  const { client, namespace } = tested;
  const [layouts, filesystems, claims, volumes, attachments] = await Promise.all([
    client.list(FILESYSTEM_LAYOUTS),
    client.list(FILESYSTEMS, { namespace }),
    client.list(PERSISTENT_VOLUME_CLAIMS, { namespace: MEMBER_NAMESPACE }),
    client.list(PERSISTENT_VOLUMES),
    client.list(VOLUME_ATTACHMENTS),
  ]);
  const ours = volumes.items.filter(
    ({ spec }) => spec.csi?.driver === SPAN_DRIVER || spec.claimRef?.namespace === MEMBER_NAMESPACE,
  );
  const held = attachments.items.filter(
    ({ metadata, spec }) => spec.attacher === SPAN_DRIVER || metadata.labels?.[RECORDS.volumeUID] !== undefined,
  );
  return [layouts.items, filesystems.items, claims.items, ours, held].flatMap((items) =>
    items.map(({ kind, metadata }) => `${kind} ${metadata.name}`),
  );
}

/** CSI mounts, staged volumes and members on every node, and loop devices of the cluster's own member driver. */
export async function spanTracesOnNodes({ places, nodes }: Cluster): Promise<string[]> {
  const found = memberLoops(memberDirectoryOf({ places }));
  for (const name of nodes) {
    const kubelet = join(nodePlaces(places, name).varLib, "kubelet");
    const staged = [join(kubelet, "plugins/kubernetes.io/csi", SPAN_DRIVER), join(kubelet, "plugins", SPAN_DRIVER)];
    const directories = staged.flatMap((directory) => directoriesIn(directory));
    found.push(...[...(await mountsOn(places, name)), ...directories].map((path) => `${name}: ${path}`));
  }
  return found;
}

/** The node has copies of this machine's own mounts as well, elsewhere. */
async function mountsOn(places: Cluster["places"], node: string): Promise<string[]> {
  const holder = runningProcess(places, node);
  if (holder === undefined) return [];
  const mounts = mountsUnder(KUBELET_DIRECTORY, readFileSync(`/proc/${await onlyChild(holder)}/mountinfo`, "utf8"));
  return mounts.filter((path) => path.includes(SPAN_DRIVER) || path.includes("/volumes/kubernetes.io~csi/"));
}

/**
 * Known by the name of the file behind each, whether or not that is still there. Other clusters of this machine have members, too:
 * this one's are those that its driver has, or was ever asked of.
 */
function memberLoops(directory: string): string[] {
  const own = new Set([
    ...createVolumeFiles(directory)
      .volumes()
      .map(({ volumeId }) => volumeId),
    ...readRpcLog(directory).map(({ volumeId }) => volumeId),
  ]);
  return readdirSync("/sys/block").flatMap((name) => {
    const path = `/sys/block/${name}/loop/backing_file`;
    const [volume] = /vol-[0-9a-f-]{36}(?=\.img)/.exec(backingFile(path)) ?? [];
    return own.has(volume) && volume !== undefined ? [`loop device ${name} on ${volume}`] : [];
  });
}

/** Empty when it has none, or has lost it in this moment. */
function backingFile(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return "";
  }
}

/** Sockets are the driver's own. */
function directoriesIn(directory: string): string[] {
  if (!existsSync(directory)) return [];
  const entries = readdirSync(directory, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(directory, name));
}
