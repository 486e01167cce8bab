// Reads what a namespace may still have of a class: its ResourceQuotas, and the layouts of its other volumes. From the API server,
// since a cache that lags would let two volumes have the same bytes.
import { FILESYSTEM_LAYOUTS } from "../../api/filesystem-layout.ts";
import type { KubeClient } from "../../kube/client.ts";
import { RESOURCE_QUOTAS } from "../../kube/resources.ts";
import { memberBytesOf } from "./decide-members.ts";
import { type MemberQuota, quotaKey, tightestQuota } from "./member-quota.ts";
import { rulesOfRecords } from "./member-rules.ts";

/** For the volume `handle`. Undefined: no quota limits the class there. Throws KubeError. */
export async function readMemberQuota(
  client: KubeClient,
  namespace: string,
  className: string,
  handle: string,
): Promise<MemberQuota | undefined> {
  const quotas = (await client.list(RESOURCE_QUOTAS, { namespace })).items;
  if (quotas.every(({ spec }) => spec?.hard?.[quotaKey(className)] === undefined)) return undefined;
  const others = (await client.list(FILESYSTEM_LAYOUTS)).items.filter(
    ({ metadata, spec }) =>
      metadata.name !== handle &&
      spec.claimRef?.namespace === namespace &&
      rulesOfRecords(metadata.annotations)?.className === className,
  );
  return tightestQuota(
    quotas,
    namespace,
    className,
    others.map(memberBytesOf).reduce((a, b) => a + b, 0),
  );
}
