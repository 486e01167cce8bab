// A span whose claim and PersistentVolume exist as csi-provisioner and the PersistentVolume controller leave them, attached to a node
// as csi-attacher does it.

import { volumeNameOf } from "../../../demo/stand-ins/volume-request.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  VOLUME_ATTACHMENTS,
} from "../../../src/contracts/kubernetes/resources.ts";
import { SPAN_DRIVER } from "../../../src/contracts/names.ts";
import { buildClaim } from "../../builders/claim.ts";
import { bindToSpan } from "../../harness/bind-claim.ts";
import type { TestCluster } from "./cluster.ts";
import type { SpanUnderTest } from "./span-under-test.ts";

export interface ProvisionedSpan {
  readonly handle: string;
  /** The user's PersistentVolume. */
  readonly volumeName: string;
}

/** Claim `name` in "shop", bound; published to node-a, and attached there. */
export async function provisionedSpan(
  { client }: Pick<TestCluster, "client">,
  span: SpanUnderTest,
  name: string,
  parameters: Record<string, string> = {},
): Promise<ProvisionedSpan> {
  const built = buildClaim({ name, namespace: "shop", storageClassName: "span" });
  const claim = await client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, built);
  const volumeName = volumeNameOf(claim);
  const ofClaim = { "csi.storage.k8s.io/pvc/name": name };
  const { volume } = await span.create(span.request({ ...parameters, ...ofClaim }, { name: volumeName }));
  const handle = volume?.volumeId ?? "";
  await bindToSpan(client, claim, volume, "2Gi");
  const bound = { status: { phase: "Bound" } };
  await client.mergePatch("test/bound", PERSISTENT_VOLUMES, { name: volumeName }, bound, "status");
  await client.create("test/attach", VOLUME_ATTACHMENTS, {
    apiVersion: "storage.k8s.io/v1",
    kind: "VolumeAttachment",
    metadata: { name: `csi-${name}` },
    spec: { attacher: SPAN_DRIVER, nodeName: "node-a", source: { persistentVolumeName: volumeName } },
  });
  await span.publish(handle, "node-a");
  const isAttached = span.untilLayout(
    "m0 is attached",
    handle,
    ({ spec }) => spec.members?.every(({ source }) => source.claim?.attachment !== undefined) === true,
  );
  await isAttached;
  return { handle, volumeName };
}
