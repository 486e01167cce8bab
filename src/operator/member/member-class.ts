// What is known of the StorageClass of a volume's members: whether they may grow in place, whether that has failed lately, and how much
// of it the claim's namespace may have. A class that is gone lets none grow.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { STORAGE_CLASSES } from "../../kube/resources.ts";
import type { MemberClassFacts } from "./decide-members.ts";
import { classFailure, growthTime } from "./member-growth.ts";
import { classRoundings } from "./member-rounding.ts";
import { rulesOfRecords } from "./member-rules.ts";
import { listOfClass, readMemberQuota } from "./read-member-quota.ts";

/**
 * `growthTimeMs`: the date of what is remembered of its growth next. Undefined: the layout is of another backend, or does not say of which
 * class its members are.
 */
export async function readMemberClass(
  client: KubeClient,
  layout: FilesystemLayout,
  budgetBytes: number,
  nowMs: number,
): Promise<(MemberClassFacts & { readonly growthTimeMs: number }) | undefined> {
  const rules = layout.spec.backend === "span" ? rulesOfRecords(layout.metadata.annotations) : undefined;
  if (rules === undefined) return undefined;
  const { className } = rules;
  const { claimRef } = layout.spec;
  const ofClass = await listOfClass(client, className);
  const [storageClass, quota] = await Promise.all([
    client.get(STORAGE_CLASSES, { name: className }),
    readMemberQuota(client, claimRef?.namespace ?? "", className, layout.metadata.name, ofClass, budgetBytes),
  ]);
  const failure = classFailure(ofClass, className, nowMs);
  const growth = { growthFailed: failure !== undefined, growthFailures: failure?.failures };
  const growthTimeMs = growthTime(ofClass, className, nowMs);
  const roundings = classRoundings(ofClass, className, nowMs);
  return { rules, mayGrow: storageClass?.allowVolumeExpansion === true, ...growth, roundings, quota, growthTimeMs };
}
