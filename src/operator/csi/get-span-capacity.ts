// GetCapacity of spans: what the driver of the members' class publishes (CSIStorageCapacity). Where it publishes nothing only that
// driver knows, and no figure is made up. Reads only.
import { type Labels, matchesSelector } from "../../api/label-selector.ts";
import { TOPOLOGY_NODE } from "../../api/names.ts";
import type { Driver } from "../../csi/driver.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { GetCapacityRequest, GetCapacityResponse } from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { CSI_STORAGE_CAPACITIES, type CSIStorageCapacity, NODES, STORAGE_CLASSES } from "../../kube/resources.ts";
import { parseQuantity } from "../../units/quantity.ts";
import { capacityQuestion } from "./capacity-question.ts";
import { parseMemberParameters } from "./member-parameters.ts";
import { MINIMUM_BYTES } from "./volume-size.ts";

/** Of the asked topology, or everywhere. The largest volume is the largest member: a span begins with one. */
export async function getSpanCapacity(
  client: KubeClient,
  driver: Driver,
  request: GetCapacityRequest,
): Promise<GetCapacityResponse | Refusal> {
  const question = capacityQuestion(request, driver);
  if (question instanceof Refusal) return question;
  // Of no class no volume can be made.
  if (Object.keys(request.parameters).length === 0) return answer([]);
  const rules = parseMemberParameters(request.parameters);
  if (rules instanceof Refusal) return rules;
  const published = await publishedFor(client, rules.className);
  if (published instanceof Refusal) return published;
  const labels = await labelsAt(client, question.segments);
  return answer(
    published.filter(
      ({ nodeTopology }) => nodeTopology !== undefined && (!labels || matchesSelector(nodeTopology, labels)),
    ),
  );
}

function answer(published: readonly CSIStorageCapacity[]): GetCapacityResponse {
  const capacities = published.map(({ capacity }) => parseQuantity(capacity ?? "0"));
  const largest = published.map(({ capacity, maximumVolumeSize }) =>
    parseQuantity(maximumVolumeSize ?? capacity ?? "0"),
  );
  return {
    availableCapacity: capacities.reduce((sum, bytes) => sum + bytes, 0),
    maximumVolumeSize: Math.max(0, ...largest),
    minimumVolumeSize: MINIMUM_BYTES.btrfs,
  };
}

async function publishedFor(client: KubeClient, className: string): Promise<CSIStorageCapacity[] | Refusal> {
  const storageClass = await client.get(STORAGE_CLASSES, { name: className });
  if (storageClass === undefined)
    return new Refusal("INVALID_ARGUMENT", `parameter memberStorageClassName: there is no StorageClass "${className}"`);
  const all = (await client.list(CSI_STORAGE_CAPACITIES)).items;
  const own = all.filter(({ storageClassName }) => storageClassName === className);
  if (own.length > 0) return own;
  return new Refusal(
    "UNAVAILABLE",
    `${storageClass.provisioner} publishes no CSIStorageCapacity of class ${className}: what it still has only it knows`,
  );
}

/** Undefined: anywhere. A node is known by its labels. */
async function labelsAt(client: KubeClient, segments: Labels): Promise<Labels | undefined> {
  if (Object.keys(segments).length === 0) return undefined;
  const nodeName = segments[TOPOLOGY_NODE];
  const node = nodeName === undefined ? undefined : await client.get(NODES, { name: nodeName });
  return { ...node?.metadata.labels, ...segments };
}
