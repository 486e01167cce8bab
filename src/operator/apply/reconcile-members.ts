// Makes the members of a span volume what its layout says: claims, volumes, attachments of those that shall be there, and the
// teardown of those that are out of the filesystem. Then at most one write of the layout says what became of them: their sources, the states
// that their node has settled, what is remembered of their growth, and a spare that is ordered or goes, which is made like any other member
// from then on. What a member needs is decided in decide-member.ts, and what is written in decide-members-write.ts; nothing is decided here.
import { isDeepStrictEqual } from "node:util";
import type { ClaimSource } from "../../contracts/kinds/claim-source.ts";
import type { FilesystemLayout, MemberSpec } from "../../contracts/kinds/filesystem-layout.ts";
import { VOLUME_ATTACHMENTS } from "../../contracts/kubernetes/resources.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { KeyedQueue } from "../../platform/process/async/keyed-queue.ts";
import type { Clock } from "../../platform/process/clock.ts";
import { attachmentOf, decideMember, decideMemberEnd } from "../decide/decide-member.ts";
import type { MemberReport } from "../decide/decide-status.ts";
import { isRemoving } from "../decide/layout-facts.ts";
import { decideMemberStates } from "../decide/members/decide-member-state.ts";
import {
  decideMembersWrite,
  type MembersDone,
  type MembersWrite,
  membersReport,
  type PassedMember,
} from "../decide/members/decide-members-write.ts";
import { decideSpare, type SpareFacts } from "../decide/members/decide-spare.ts";
import type { ClassFailure } from "../decide/members/member-growth.ts";
import { rulesOfRecords } from "../decide/members/member-rules.ts";
import { gatherMembers, gatherPlace, type MemberCaches } from "../gather/member-facts.ts";
import { gatherSpare } from "../gather/member-room.ts";
import type { LayoutFields } from "../volumes/layout-fields.ts";
import type { MemberSteps } from "./member-steps.ts";
import { removeMembers } from "./remove-members.ts";
import type { LayoutWriter } from "./volume-objects.ts";

export interface MemberReconciling extends MemberWriting {
  readonly caches: MemberCaches;
  readonly steps: MemberSteps;
}

/** What was done besides. */
interface MembersReconciled extends MemberReport {
  /** Members that the layout still named as in the filesystem, and that this pass has asked to go. */
  readonly left: readonly MemberSpec[];
}

const QUIET: MembersReconciled = { waiting: [], problem: undefined, spare: undefined, left: [] };

/**
 * Idempotent. `noGrowth`: their class has lately failed to grow one. Throws KubeError where the API server fails, not where it refuses a
 * claim.
 */
export async function reconcileMembers(
  reconciling: MemberReconciling,
  layout: FilesystemLayout,
  noGrowth: ClassFailure | undefined,
): Promise<MembersReconciled> {
  if (isRemoving(layout)) return QUIET;
  const { client, caches, steps } = reconciling;
  const states = new Map(decideMemberStates(layout).map((one) => [one.named.name, one]));
  const all = gatherMembers(caches, layout);
  const passed: PassedMember[] = [];
  for (const facts of all) {
    const now = states.get(facts.member.name);
    if (now === undefined || now.isOut) continue;
    const place = await gatherPlace(client, layout, facts, all, now.found.state === "Spare");
    const plan = decideMember(facts, place);
    const denied = await steps.take(layout, facts.member, plan.steps);
    const isSeen = denied === undefined && (await isSeenNow(client, facts.member, plan.source));
    passed.push({ ...decideMemberEnd(facts.member, plan, denied, isSeen), found: now.found });
  }
  const removed = await removeMembers(client, caches, layout);
  const { waiting, problem, spare } = membersReport(passed, removed.waiting);
  const sources = new Map(passed.flatMap(({ found, source }) => (source === undefined ? [] : [[found.name, source]])));
  const record = await writeMembers(reconciling, layout, { sources, gone: removed.gone, noGrowth }, spare);
  return { waiting, problem, left: record.left, spare: spare ?? record.lack };
}

/**
 * Whether the layout has this attachment already, or the API server shows it now. A cache may show an older
 * VolumeAttachment, and no node may learn of that.
 */
async function isSeenNow(
  client: KubeClient,
  { source }: MemberSpec,
  planned: ClaimSource | undefined,
): Promise<boolean> {
  const { attachment } = planned ?? {};
  if (attachment?.name === undefined || isDeepStrictEqual(source.claim?.attachment, attachment)) return true;
  const live = await client.get(VOLUME_ATTACHMENTS, { name: attachment.name });
  return live !== undefined && isDeepStrictEqual(attachmentOf(live), attachment);
}

interface MemberWriting {
  readonly client: KubeClient;
  readonly layouts: LayoutWriter;
  readonly clock: Clock;
  /** By namespace, whose volumes share its quotas. */
  readonly turns: KeyedQueue;
  /** What a namespace may have of a members' class where no ResourceQuota says it. */
  readonly budgetBytes: number;
}

/** `spareProblem`: why the spare that is ordered is not there yet; then none is ordered. Idempotent; throws KubeError. */
export async function writeMembers(
  { client, layouts, turns, clock, budgetBytes }: MemberWriting,
  layout: FilesystemLayout,
  done: MembersDone,
  spareProblem: string | undefined,
): Promise<Omit<MembersWrite, "fields">> {
  const write = async (spare: SpareFacts | undefined): Promise<MembersWrite> => {
    let record: MembersWrite = { fields: undefined, left: [], lack: undefined };
    await layouts.update("member/record-sources", layout, (current) => {
      record = decideMembersWrite(layout, current, done, spare, clock.nowMs());
      return record.fields === undefined || saysSo(current, record.fields) ? undefined : record.fields;
    });
    return record;
  };
  const plan = decideSpare(layout, rulesOfRecords(layout.metadata.annotations));
  if (spareProblem === undefined && (plan.do === "order" || plan.do === "drop"))
    return turns.run(layout.spec.claimRef?.namespace ?? "", async () =>
      write(await gatherSpare(client, layout, budgetBytes, clock.nowMs())),
    );
  const { left } = await write(undefined);
  return { left, lack: plan.do === "lack" ? plan.message : undefined };
}

function saysSo({ spec }: FilesystemLayout, { members, ...others }: LayoutFields): boolean {
  return Object.keys(others).length === 0 && isDeepStrictEqual(members, spec.members ?? []);
}

/** For the Event. What its volume is, as far as the layout says it. */
export function departureMessage({ name, source }: MemberSpec): string {
  const { driver, volumeHandle } = source.claim ?? {};
  const volume =
    volumeHandle === undefined ? "" : ` (volume ${volumeHandle}${driver === undefined ? "" : ` of driver ${driver}`})`;
  return `member ${name}${volume} has left the filesystem: the layout is corrected, and its volume goes`;
}
