// Reads what a namespace may still have of a class: its ResourceQuotas, and the layouts of its other volumes. From the API server,
// since a cache that lags would let two volumes have the same bytes.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { RESOURCE_QUOTAS } from "../../kube/resources.ts";
import { type MemberQuota, tightestQuota } from "./member-quota.ts";
import { rulesOfRecords } from "./member-rules.ts";
import { memberBytesOf } from "./member-shares.ts";

/** Of every namespace. Throws KubeError. */
export async function listOfClass(client: KubeClient, className: string): Promise<FilesystemLayout[]> {
  const { items } = await client.list(FILESYSTEM_LAYOUTS);
  return items.filter(({ metadata }) => rulesOfRecords(metadata.annotations)?.className === className);
}

/**
 * For the volume `handle`. `ofClass`: all layouts of the class. `budgetBytes`: what the namespace may have where no quota limits the
 * class. Throws KubeError.
 */
export async function readMemberQuota(
  client: KubeClient,
  namespace: string,
  className: string,
  handle: string,
  ofClass: readonly FilesystemLayout[],
  budgetBytes: number,
): Promise<MemberQuota> {
  const quotas = (await client.list(RESOURCE_QUOTAS, { namespace })).items;
  const others = ofClass.filter(
    ({ metadata, spec }) => metadata.name !== handle && spec.claimRef?.namespace === namespace,
  );
  const othersBytes = others.map(memberBytesOf).reduce((a, b) => a + b, 0);
  const budget = { namespace, className, name: undefined, limitBytes: budgetBytes, takenBytes: othersBytes };
  return tightestQuota(quotas, namespace, className, othersBytes) ?? budget;
}
