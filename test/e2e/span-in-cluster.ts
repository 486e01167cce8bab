// One span in the test cluster, with a pod that only holds it: where its filesystem is seen from this machine, and what its objects say.
import { createHash } from "node:crypto";
import { fsidOf, volumeUIDOf } from "../../src/contracts/identity.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../src/contracts/kinds/filesystem-layout.ts";
import { SPAN_DRIVER } from "../../src/contracts/names.ts";
import type { Cluster } from "../cluster/cluster-state.ts";
import { KUBELET_DIRECTORY } from "../cluster/node-settings.ts";
import { onlyChild, runningProcess } from "../cluster/recorded-process.ts";
import { eventually, waitFor } from "../harness/wait-for.ts";
import { applyObject } from "./apply-object.ts";
import { claimingPod, claimOf } from "./claiming-pod.ts";
import type { ClusterUnderTest } from "./cluster-under-test.ts";
import { PODS } from "./pod.ts";

/** Whose nodes are seen into from outside. */
export interface OwnCluster extends ClusterUnderTest {
  readonly cluster: Cluster;
}

export interface SpanInCluster {
  readonly name: string;
  readonly handle: string;
  readonly fsid: string;
  /** Of its staging directory, through the node's mount namespace. */
  readonly mountPath: string;
}

const LIMITS = { limitMs: 180_000, intervalMs: 200 } as const;
const QUIET_MS = 3000;

export async function createSpan(
  tested: OwnCluster,
  name: string,
  className: string,
  request = "2Gi",
): Promise<SpanInCluster> {
  await applyObject(tested, claimOf(name, className, request));
  await applyObject(tested, claimingPod(name, tested.image, name));
  const pod = await waitFor(
    `pod ${name} to run`,
    async () => {
      const found = await tested.client.get(PODS, { namespace: tested.namespace, name });
      return found?.status?.phase === "Running" ? found : undefined;
    },
    { ...LIMITS, otherwise: () => tested.kubectl("describe", "pods,pvc,filesystems") },
  );
  const { items } = await tested.client.list(FILESYSTEM_LAYOUTS);
  const handle = items.find(({ spec }) => spec.claimRef?.name === name)?.metadata.name ?? "";
  const holder = runningProcess(tested.cluster.places, pod.spec.nodeName ?? "");
  if (holder === undefined) throw new Error(`${pod.spec.nodeName} has no power`);
  const first = await onlyChild(holder);
  return {
    name,
    handle,
    fsid: fsidOf(volumeUIDOf(handle) ?? ""),
    mountPath: `/proc/${first}/root${stagingPath(handle)}`,
  };
}

/** Where kubelet has a volume of a CSI driver staged. */
function stagingPath(handle: string): string {
  const hash = createHash("sha256").update(handle).digest("hex");
  return `${KUBELET_DIRECTORY}/plugins/kubernetes.io/csi/${SPAN_DRIVER}/${hash}/globalmount`;
}

export async function deleteSpan({ kubectl, client }: OwnCluster, { name, handle }: SpanInCluster): Promise<void> {
  await kubectl("delete", "pod", name, "--wait=true");
  await kubectl("delete", "pvc", name, "--wait=true");
  const isGone = async (): Promise<true | undefined> =>
    (await client.get(FILESYSTEM_LAYOUTS, { name: handle })) === undefined ? true : undefined;
  await waitFor(`${handle} to be gone`, isGone, LIMITS);
}

export async function untilLayout(
  { client, kubectl }: OwnCluster,
  { handle }: Pick<SpanInCluster, "handle">,
  what: string,
  holds: (layout: FilesystemLayout) => boolean,
): Promise<FilesystemLayout> {
  const look = async (): Promise<FilesystemLayout | undefined> => {
    const layout = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
    return layout !== undefined && holds(layout) ? layout : undefined;
  };
  const otherwise = (): Promise<string> => kubectl("get", "filesystems,filesystemlayouts", "--output", "yaml");
  return waitFor(`${handle}: ${what}`, look, { ...LIMITS, otherwise });
}

/** Nobody has written to its layout for a while. */
export async function untilQuiet(tested: OwnCluster, span: SpanInCluster): Promise<void> {
  const version = async (): Promise<string | undefined> =>
    (await tested.client.get(FILESYSTEM_LAYOUTS, { name: span.handle }))?.metadata.resourceVersion;
  let before: string | undefined;
  const isSame = async (): Promise<boolean> => {
    const last = before;
    before = await version();
    return before === last;
  };
  await eventually(`no more writes to ${span.handle}`, isSame, { ...LIMITS, intervalMs: QUIET_MS });
}
