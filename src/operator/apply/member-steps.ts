// Takes the steps that a member's plan asks for, each of them idempotent, and repeats no step before a cache could have shown it. A claim or
// an attachment that exists under the member's name was made by an earlier attempt; one that belongs to another user or process is refused.
import type { FilesystemLayout, MemberSpec } from "../../contracts/kinds/filesystem-layout.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
  VOLUME_ATTACHMENTS,
} from "../../contracts/kubernetes/resources.ts";
import { MEMBER_NAMESPACE, SELECTED_NODE, SELECTED_NODE_ANNOTATION } from "../../contracts/names.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { isKubeError, KubeError } from "../../platform/kube/kube-error.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { MemberStep } from "../decide/decide-member.ts";
import { type Marks, marksOf, rulesOfRecords } from "../decide/members/member-rules.ts";
import { attachmentName, labelledHandle, memberClaim, memberLabels } from "../volumes/member-objects.ts";
import { type Placing, UnsafeHomeError } from "./member-home.ts";

export interface MemberSteps {
  /** Returns why a step is refused; undefined: all that were due are taken. Throws KubeError where the API server fails. */
  take(layout: FilesystemLayout, member: MemberSpec, steps: readonly MemberStep[]): Promise<string | undefined>;
}

/** Between two attempts of a provisioner that has no room on a member's node. */
const RESELECTION_INTERVAL_MS = 30_000;
/** A cache shows what was made well before. */
const MAKING_INTERVAL_MS = 1000;

export function createMemberSteps(placing: Placing, clock: Pick<Clock, "monotonicMs">): MemberSteps {
  const reselection = createPace(clock, RESELECTION_INTERVAL_MS);
  const making = createPace(clock, MAKING_INTERVAL_MS);

  async function takeOnce(layout: FilesystemLayout, member: MemberSpec, step: MemberStep): Promise<void> {
    const isMade = step.do === "create-claim" || step.do === "attach";
    const key = `${layout.metadata.uid}/${member.name}/${step.do === "attach" ? step.nodeName : ""}`;
    if (isMade && !making.mayAsk(key)) return;
    try {
      await takeStep(placing, layout, member, step);
    } catch (error) {
      making.forget(key);
      throw error;
    }
  }
  return {
    take: async (layout, member, steps) => {
      const isDue = (step: MemberStep): boolean =>
        step.do !== "select-node" || reselection.mayAsk(step.claim.metadata.uid ?? "");
      try {
        for (const step of steps.filter(isDue)) await takeOnce(layout, member, step);
        return undefined;
      } catch (error) {
        // A quota, a policy, a name that is taken: reported to users, and checked again with every change of the volume.
        if (error instanceof ForeignClaimError || error instanceof UnsafeHomeError) return error.message;
        if (error instanceof KubeError && (error.reason === "Forbidden" || error.reason === "Invalid"))
          return `member ${member.name}: ${error.message}`;
        throw error;
      }
    },
  };
}

/** A claim of the member's name is not the member's. */
export class ForeignClaimError extends Error {
  override name = "ForeignClaimError";
}

/** Throws KubeError, ForeignClaimError, and UnsafeHomeError. */
async function takeStep(
  placing: Placing,
  layout: FilesystemLayout,
  member: MemberSpec,
  step: MemberStep,
): Promise<void> {
  const { name } = member;
  const { client } = placing;
  switch (step.do) {
    case "create-claim":
      await createMemberClaim(placing, layout, member, step.selectedNode);
      return;
    case "select-node": {
      const selected = { metadata: { annotations: { [SELECTED_NODE]: step.nodeName } } };
      await client.mergePatch("member/select-node", PERSISTENT_VOLUME_CLAIMS, nameOf(step.claim), selected);
      return;
    }
    case "grow-claim": {
      const request = { spec: { resources: { requests: { storage: step.size } } } };
      await client.mergePatch("member/grow-claim", PERSISTENT_VOLUME_CLAIMS, nameOf(step.claim), request);
      return;
    }
    case "finish-growth": {
      const status = { capacity: { storage: step.size }, allocatedResources: null, allocatedResourceStatuses: null };
      await client.mergePatch(
        "member/finish-growth",
        PERSISTENT_VOLUME_CLAIMS,
        nameOf(step.claim),
        { status: { ...status, conditions: [] } },
        "status",
      );
      return;
    }
    case "keep-volume":
      await keepVolume(client, step.volume, step.patch);
      return;
    case "attach":
      await attachMember(client, layout, name, step);
      return;
  }
}

/**
 * The claim, whether or not this call made it; creates the members' namespace where it is missing. `selectedNode`
 * undefined: the node that has the volume, or was chosen for its first member.
 */
export async function createMemberClaim(
  placing: Placing,
  layout: FilesystemLayout,
  member: MemberSpec,
  selectedNode?: string,
): Promise<PersistentVolumeClaim> {
  const order = orderOf(layout);
  const marks = await readMarks(placing.client, layout);
  return placeClaim(
    placing,
    memberClaim({ ...order, marks, selectedNode: selectedNode ?? order.selectedNode }, member),
  );
}

/** Of the volume's own claim, for the member to have from its beginning. */
async function readMarks(client: KubeClient, { metadata, spec }: FilesystemLayout): Promise<Marks | undefined> {
  const carried = rulesOfRecords(metadata.annotations)?.carried;
  const { namespace, name, uid } = spec.claimRef ?? {};
  if (carried === undefined || !namespace || !name) return undefined;
  const claim = await client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
  return claim === undefined || claim.metadata.uid !== uid ? undefined : marksOf(carried, claim);
}

/** The claim, or one of its name that carries the same labels, which stays in whatever namespace it is. */
export async function placeClaim(
  { client, home }: Placing,
  claim: PersistentVolumeClaim,
): Promise<PersistentVolumeClaim> {
  const problem = await home.problem();
  if (problem === undefined) return createOrMeet(client, claim);
  const existing = await client.get(PERSISTENT_VOLUME_CLAIMS, nameOf(claim));
  if (existing !== undefined && labelledHandle(existing) === labelledHandle(claim)) return existing;
  throw new UnsafeHomeError(problem);
}

async function createOrMeet(client: KubeClient, claim: PersistentVolumeClaim): Promise<PersistentVolumeClaim> {
  try {
    return await client.create("member/create-claim", PERSISTENT_VOLUME_CLAIMS, claim);
  } catch (error) {
    const isThere = isKubeError(error, "AlreadyExists");
    const existing = isThere ? await client.get(PERSISTENT_VOLUME_CLAIMS, nameOf(claim)) : undefined;
    if (existing === undefined) throw error;
    if (labelledHandle(existing) === labelledHandle(claim)) return existing;
    throw new ForeignClaimError(
      `claim ${MEMBER_NAMESPACE}/${existing.metadata.name} exists and does not carry the labels of ${labelledHandle(claim)}; delete or rename it`,
    );
  }
}

function orderOf({ metadata, spec }: FilesystemLayout): Parameters<typeof memberClaim>[0] {
  const className = rulesOfRecords(metadata.annotations)?.className;
  if (className === undefined || spec.volumeUID === undefined)
    throw new Error(`${metadata.name} does not say which class its members are of`);
  const selectedNode = spec.nodeName ?? metadata.annotations?.[SELECTED_NODE_ANNOTATION];
  return { handle: metadata.name, volumeUID: spec.volumeUID, className, selectedNode };
}

export async function keepVolume(client: KubeClient, { metadata }: PersistentVolume, patch: object): Promise<void> {
  await client.mergePatch("member/keep-volume", PERSISTENT_VOLUMES, { name: metadata.name }, patch);
}

interface Attaching {
  readonly driver: string;
  readonly volume: PersistentVolume;
  readonly nodeName: string;
}

export async function attachMember(
  client: KubeClient,
  { metadata, spec }: FilesystemLayout,
  member: string,
  { driver, volume, nodeName }: Attaching,
): Promise<void> {
  const name = attachmentName(metadata.name, member, nodeName);
  try {
    await client.create("member/attach", VOLUME_ATTACHMENTS, {
      apiVersion: "storage.k8s.io/v1",
      kind: "VolumeAttachment",
      metadata: { name, labels: memberLabels(spec.volumeUID ?? "", member) },
      spec: { attacher: driver, nodeName, source: { persistentVolumeName: volume.metadata.name } },
    });
  } catch (error) {
    if (!isKubeError(error, "AlreadyExists")) throw error;
  }
}

function nameOf({ metadata }: PersistentVolumeClaim): { namespace: string; name: string } {
  return { namespace: metadata.namespace ?? MEMBER_NAMESPACE, name: metadata.name };
}

/** How often something is asked for again that is refused each time: at most once in an interval for each key. */
interface Pace {
  /** True when it was not asked for within the interval; it counts as asked for then. */
  mayAsk(key: string): boolean;
  /** It was asked for in vain: the next one may ask at once. */
  forget(key: string): void;
}

export function createPace({ monotonicMs }: Pick<Clock, "monotonicMs">, intervalMs: number): Pace {
  // In the order of asking: what is over stands first.
  const askedMs = new Map<string, number>();
  return {
    mayAsk: (key) => {
      const nowMs = monotonicMs();
      for (const [oldest, atMs] of askedMs) {
        if (nowMs - atMs < intervalMs) break;
        askedMs.delete(oldest);
      }
      if (askedMs.has(key)) return false;
      askedMs.set(key, nowMs);
      return true;
    },
    forget: (key) => {
      askedMs.delete(key);
    },
  };
}
