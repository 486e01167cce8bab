// What the agent says about a volume in FilesystemLayout.status: pure, from what it knows of it.
import { datedCondition, type Statement } from "../api/condition.ts";
import type { FilesystemLayout, FilesystemLayoutStatus } from "../api/filesystem-layout.ts";
import type { ConditionReason, HoldReason } from "../api/reasons.ts";
import { formatBytes, formatQuantity, parseQuantity } from "../units/quantity.ts";
import { wholeGrains } from "./storage/size-grain.ts";
import { type VolumeState, volumeOf } from "./volume-state.ts";

export interface StatusFacts {
  readonly state: VolumeState;
  readonly nodeName: string;
  readonly nowMs: number;
  /** As last seen: what it says keeps its time. */
  readonly live: FilesystemLayout;
}

/** Every field that the agent owns; what is absent here is taken back from the object. */
export function layoutStatus({ state, nodeName, nowMs, live }: StatusFacts): FilesystemLayoutStatus {
  const { record, running } = state;
  const members = memberStatus(state, live);
  return {
    observedGeneration: live.metadata.generation,
    fsid: volumeOf(record).fsid,
    nodeName,
    mounted: state.mounted !== undefined,
    epoch: record.epoch,
    ...(members === undefined ? {} : { members: [members] }),
    ...(running === undefined ? {} : { operation: running.operation }),
    ...(record.lastOperation === undefined ? {} : { lastOperation: record.lastOperation }),
    conditions: conditionsOf(state).map((statement) =>
      datedCondition(statement, live.status?.conditions, live.metadata.generation, nowMs),
    ),
  };
}

type Member = NonNullable<FilesystemLayoutStatus["members"]>[number];

function memberStatus({ record, removed, sizeBytes }: VolumeState, live: FilesystemLayout): Member | undefined {
  const name = record.memberName;
  const lastSize = live.status?.members?.find((member) => member.name === name)?.size ?? "0";
  if (removed) return { name, size: lastSize, state: "Removed" };
  if (sizeBytes !== undefined) return { name, size: formatQuantity(sizeBytes), state: "Present" };
  return record.memberMade ? { name, size: lastSize, state: "Missing" } : undefined;
}

interface Because {
  readonly reason: ConditionReason | HoldReason;
  readonly message: string;
}

function conditionsOf(state: VolumeState): Statement[] {
  const stalled = stallOf(state);
  const pending = pendingOf(state);
  const fine = { reason: "Ready" as const, message: situation(state) };
  return [
    statement("Ready", !blocks(state) && !isUnmade(state), blocks(state) ?? pendingUnmade(state) ?? fine),
    statement("Reconciling", pending !== undefined, pending ?? fine),
    statement("Stalled", stalled !== undefined, stalled ?? fine),
  ];
}

function statement(type: "Ready" | "Reconciling" | "Stalled", holds: boolean, because: Because): Statement {
  return { type, status: holds ? "True" : "False", ...because };
}

/** What keeps the filesystem from being used. */
function blocks(state: VolumeState): Because | undefined {
  if (state.hung)
    return {
      reason: "FilesystemHung",
      message: `the filesystem at ${state.mounted?.mountPath} does not answer; see dmesg on the node`,
    };
  if (isMissing(state))
    return {
      reason: "MembersMissing",
      message: `member ${state.record.memberFile} was made on this node and is not there any more; bring the file back`,
    };
  return state.problem;
}

/** What will not mend by itself. */
function stallOf(state: VolumeState): Because | undefined {
  const blocked = blocks(state);
  if (blocked !== undefined) return blocked;
  if (state.recordProblem !== undefined) return { reason: "RecordNotWritten", message: state.recordProblem };
  if (state.refusal !== undefined) return { reason: "StaleEpoch", message: state.refusal };
  if (state.settleProblem !== undefined)
    return {
      reason: "ResizeFailed",
      message: `member and filesystem are not known to be of one size; it is tried again: ${state.settleProblem}`,
    };
  return failureOf(state);
}

/** Of the last operation, unless its size was reached after all. */
function failureOf({
  record: { lastOperation: last },
  running,
  unsettled,
  sizeBytes,
}: VolumeState): Because | undefined {
  if (last?.outcome !== "Failed" || running !== undefined) return undefined;
  if (!unsettled && sizeBytes === wholeGrains(parseQuantity(last.to))) return undefined;
  return {
    reason: "ResizeFailed",
    message: `${last.kind} from ${last.from} to ${last.to}: ${last.message ?? "failed"}`,
  };
}

function pendingOf(state: VolumeState): Because | undefined {
  if (state.running !== undefined) {
    const { kind, from, to, step } = state.running.operation;
    return { reason: "OperationRunning", message: `${kind} from ${from} to ${to}: ${step}` };
  }
  return pendingUnmade(state);
}

function pendingUnmade(state: VolumeState): Because | undefined {
  return isUnmade(state)
    ? { reason: "Provisioning", message: "the member is made when a pod first uses the volume on this node" }
    : undefined;
}

function isUnmade({ record, removed, sizeBytes }: VolumeState): boolean {
  return !removed && sizeBytes === undefined && !record.memberMade;
}

function isMissing({ record, removed, sizeBytes }: VolumeState): boolean {
  return !removed && sizeBytes === undefined && record.memberMade;
}

function situation({ mounted, removed, sizeBytes }: VolumeState): string {
  if (removed) return "the member has been deleted";
  const size = sizeBytes === undefined ? "" : `${formatBytes(sizeBytes)}, `;
  return `${size}${mounted === undefined ? "not mounted: no pod on this node uses it" : "mounted"}`;
}
