// Sees to it that a span volume that is to have a spare member has one: ordered in the layout, from where it is made as any member is.
// What a spare cannot be had for is only told: the volume is fine without.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { formatBytes } from "../../units/quantity.ts";
import type { LayoutFields } from "../volume/layout-fields.ts";
import type { LayoutWriter } from "../volume/layout-writer.ts";
import { lackOfSlots } from "./attach-slots.ts";
import { newMember, nextMemberOf } from "./decide-members.ts";
import { decideSpare } from "./decide-spare.ts";
import { quotaMessage } from "./member-quota.ts";
import { type MemberRules, rulesOfRecords } from "./member-rules.ts";
import { memberBytesOf, refusedBytesOf } from "./member-shares.ts";
import { listOfClass, readMemberQuota } from "./read-member-quota.ts";
import type { Turns } from "./turns.ts";

export interface SpareTending {
  readonly client: KubeClient;
  readonly layouts: LayoutWriter;
  readonly turns: Turns;
  /** Bytes that a namespace's spans may have of a class on which it has no ResourceQuota. */
  readonly budgetBytes: number;
}

/** Returns why there is none, for people. Idempotent. Throws KubeError. */
export async function tendSpare(tending: SpareTending, layout: FilesystemLayout): Promise<string | undefined> {
  const rules = rulesOfRecords(layout.metadata.annotations);
  const plan = decideSpare(layout, rules);
  if (rules === undefined || plan.do === "keep") return undefined;
  if (plan.do === "lack") return plan.message;
  const namespace = layout.spec.claimRef?.namespace ?? "";
  return tending.turns.take(namespace, () => changeSpare(tending, layout, rules, namespace));
}

async function changeSpare(
  { client, layouts, budgetBytes }: SpareTending,
  layout: FilesystemLayout,
  rules: MemberRules,
  namespace: string,
): Promise<string | undefined> {
  const ofClass = await listOfClass(client, rules.className);
  const quota = await readMemberQuota(client, namespace, rules.className, layout.metadata.name, ofClass, budgetBytes);
  const full = await lackOfSlot(client, layout);
  let refusal: string | undefined;
  await layouts.update("member/order-spare", layout, (current): LayoutFields | undefined => {
    refusal = undefined;
    const plan = decideSpare(current, rules);
    const { members = [] } = current.spec;
    if (plan.do === "drop")
      return { members: members.map((one) => (one.name === plan.name ? { ...one, state: "Removed" } : one)) };
    if (plan.do !== "order") return undefined;
    refusal = full ?? quotaMessage(quota, memberBytesOf(current) + plan.sizeBytes, refusedBytesOf(current));
    if (refusal !== undefined) {
      refusal = `there is no spare member of ${formatBytes(plan.sizeBytes)}: ${refusal}`;
      return undefined;
    }
    const index = nextMemberOf(current);
    const spare = { ...newMember(current.metadata.name, index, plan.sizeBytes), state: "Spare" as const };
    return { members: [...members, spare], nextMember: index + 1 };
  });
  return refusal;
}

/** By the driver of the members that are there: a spare is of their class. */
async function lackOfSlot(client: KubeClient, layout: FilesystemLayout): Promise<string | undefined> {
  const { nodeName, members = [] } = layout.spec;
  const driver = members.find(({ source }) => source.claim?.driver !== undefined)?.source.claim?.driver;
  if (nodeName === undefined || driver === undefined) return undefined;
  const names = [...members.map(({ name }) => name), "spare"];
  const wanted = names.map((name) => ({ name, driver }));
  return lackOfSlots(client, nodeName, wanted, layout);
}
