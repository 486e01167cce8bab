// What can happen to a volume of this node, and what is known of it after that: pure. What was found at one mount says nothing of a later one,
// so such an event names the mounted volume.

import type { LastOperation, Operation } from "../../contracts/kinds/filesystem-layout.ts";
import type { LastTrim } from "../../contracts/kinds/trim.ts";
import type { SampledReading } from "../../contracts/reading.ts";
import type { SpanMember } from "../member-drivers/span-member.ts";
import type { FoundMember, MountedVolume } from "../storage/storage.ts";
import type { NodeRecord } from "./node-records.ts";
import type { Cancellation, NodeVolumeState, PresentMount, Problem, Running } from "./volume-state.ts";

type Nothing = object;

interface Happenings {
  /** The record as it is with the layout. */
  LayoutRead: { readonly record: NodeRecord };
  /** What the node does next. `refusal`: why it does not carry out the present target. */
  Decided: { readonly refusal: string | undefined };
  RecordSaved: Nothing;
  RecordNotSaved: { readonly message: string };
  RecordRemoved: Nothing;

  /** The layout says that this node has the members. */
  HoldAnnounced: Nothing;
  /** An agent that has just started checks what it holds. */
  HoldAssumed: Nothing;
  StagingStarted: { readonly stagingPath: string };
  /** What was true before StagingStarted, and before its announcement, is true again. */
  StagingNotRecorded: { readonly stagingPath: string | undefined; readonly held: boolean };
  Mounted: { readonly volume: MountedVolume };
  Staged: Nothing;
  /** At the path where it is to be staged. */
  FoundStaged: Nothing;
  /** By an agent without a record of it. */
  FoundMounted: { readonly stagingPath: string };
  StagingFailed: { readonly problem: Problem };
  ReleaseStarted: Nothing;
  ReleaseEnded: Nothing;
  /** And its members given back. */
  Unmounted: Nothing;
  /** Unmounted by another process, or by an unstage that failed after that. */
  MountLost: Nothing;
  Unstaged: Nothing;
  MembersGivenBack: Nothing;
  MembersNotGivenBack: { readonly message: string };
  MemberDeleted: Nothing;

  MembersFound: { readonly volume: MountedVolume; readonly members: readonly FoundMember[] };
  MemberVanished: { readonly message: string };
  /** Undefined: no member was found. */
  SizeMeasured: { readonly sizeBytes: number | undefined };
  /** Of members that have left a mounted filesystem. */
  LeftMembersReleased: Nothing;
  LeftMembersNotReleased: { readonly problem: Problem };
  SparePreparationStarted: { readonly wanted: string };
  SparesPrepared: Nothing;
  SparesNotPrepared: { readonly message: string };
  SparePreparationEnded: Nothing;
  /** An emergency takes spares for members. */
  SparesTaken: { readonly names: readonly string[] };
  /** `immovable`: why no data is moved between members; undefined: it can be. */
  MovingChecked: { readonly volume: MountedVolume; readonly immovable: string | undefined };
  UnmountedShrinksKnown: { readonly possible: boolean | undefined };

  ReadingArrived: { readonly reading: SampledReading };
  Hung: Nothing;
  Answered: Nothing;
  FoundReadOnly: { readonly nowMs: number };
  FoundWritable: Nothing;

  OperationStarted: { readonly operation: Operation; readonly startedMs: number };
  OperationRecorded: Nothing;
  /** It could not be recorded, or was cancelled before that. */
  OperationRevoked: Nothing;
  StepReached: { readonly sizeBytes: number; readonly step: string };
  /** What a dead agent has left running may change the size later. */
  FormerCommandFound: Nothing;
  EmergencyFailed: { readonly retryMs: number };
  /** `agrees`: it leaves member and filesystem at one size. */
  OperationEnded: {
    readonly lastOperation: LastOperation;
    readonly sizeBytes: number;
    readonly agrees: boolean;
    readonly endedMs: number;
  };
  /** Member and filesystem are of one size. */
  Settled: Nothing;
  NotSettled: { readonly message: string };
  CancelRequested: { readonly cancellation: Cancellation };

  TrimWanted: { readonly at: string };
  TrimStarted: Nothing;
  TrimConcluded: { readonly lastTrim: LastTrim };
  TrimEnded: Nothing;
}

type EventName = keyof Happenings;

/** One thing that has happened. */
export type VolumeEvent<Name extends EventName = EventName> = {
  [N in Name]: { readonly type: N } & Happenings[N];
}[Name];

type Reducer<Name extends EventName> = (state: NodeVolumeState, event: VolumeEvent<Name>) => NodeVolumeState;

export function reduce<Name extends EventName>(state: NodeVolumeState, event: VolumeEvent<Name>): NodeVolumeState {
  const after: Reducer<Name> = AFTER[event.type];
  return after(state, event);
}

const AFTER: { readonly [Name in EventName]: Reducer<Name> } = {
  LayoutRead: (state, { record }) => ({ ...state, record }),
  Decided: (state, { refusal }) => ({ ...state, targetRefusal: refusal }),
  RecordSaved: (state) => ({ ...state, recordProblem: undefined }),
  RecordNotSaved: (state, { message }) => ({ ...state, recordProblem: message }),
  RecordRemoved: (state) => ({ ...state, recorded: false }),

  HoldAnnounced: (state) => ({ ...state, held: true }),
  HoldAssumed: (state) => ({ ...state, held: state.record.backend === "span" }),
  StagingStarted: (state, { stagingPath }) => recorded(state, { stagingPath }),
  StagingNotRecorded: (state, { stagingPath, held }) => ({ ...recorded(state, { stagingPath }), held }),
  Mounted: (state, { volume }) => ({
    ...state,
    phase: "Mounted",
    mounted: newMount(volume),
    problem: undefined,
    operationEndedMs: 0,
    // The agent that ran before may have died between changing the member and changing the filesystem.
    unsettled: { problem: undefined },
  }),
  Staged: (state) => recorded(withoutFormer(state), { memberMade: true }),
  FoundStaged: (state) => ({ ...state, problem: undefined }),
  FoundMounted: (state, { stagingPath }) => recorded(state, { stagingPath, memberMade: true }),
  StagingFailed: (state, { problem }) => ({ ...state, problem }),
  ReleaseStarted: (state) => ({ ...state, closing: true }),
  ReleaseEnded: (state) => ({ ...state, closing: false }),
  Unmounted: (state) => ({ ...withoutMount(state), held: false, problem: undefined }),
  MountLost: (state) => ({ ...withoutMount(state), reading: undefined }),
  Unstaged: (state) => ({ ...recorded(state, { stagingPath: undefined }), reading: undefined }),
  MembersGivenBack: (state) => ({ ...state, held: false, leavingProblem: undefined }),
  MembersNotGivenBack: (state, { message }) =>
    state.mounted === undefined ? { ...state, leavingProblem: { reason: "WaitingForMember", message } } : state,
  MemberDeleted: (state) => ({
    ...state,
    phase: "Removed",
    mounted: undefined,
    problem: undefined,
    sizeBytes: undefined,
  }),

  MembersFound: (state, { volume, members }) =>
    state.mounted?.volume === volume ? withMembers(state, members) : state,
  MemberVanished: (state, { message }) => ({ ...state, problem: { reason: "MembersMissing", message } }),
  SizeMeasured: (state, { sizeBytes }) => {
    const { running, record } = state;
    return {
      ...state,
      // An operation says itself how far it has come.
      sizeBytes: running === undefined ? sizeBytes : state.sizeBytes,
      record: sizeBytes === undefined || record.memberMade ? record : { ...record, memberMade: true },
    };
  },
  LeftMembersReleased: (state) => ({ ...state, leavingProblem: undefined }),
  LeftMembersNotReleased: (state, { problem }) => ({ ...state, leavingProblem: problem }),
  SparePreparationStarted: (state, { wanted }) => {
    refuseSecond(state.sparePreparation, `the preparation of a spare of ${state.handle}`);
    return { ...state, sparePreparation: { wanted, cancellation: undefined } };
  },
  SparesPrepared: (state) => withMount(state, { spareProblem: undefined }),
  SparesNotPrepared: (state, { message }) => withMount(state, { spareProblem: message }),
  SparePreparationEnded: (state) => ({ ...state, sparePreparation: undefined }),
  SparesTaken: (state, { names }) => ({ ...state, record: withSparesTaken(state.record, names) }),
  MovingChecked: (state, { volume, immovable }) =>
    state.mounted?.volume === volume ? withMount(state, { moving: { immovable } }) : state,
  UnmountedShrinksKnown: (state, { possible }) => ({ ...state, shrinksUnmounted: possible }),

  ReadingArrived: (state, { reading }) => ({ ...state, reading }),
  Hung: (state) => withMount(state, { hung: true }),
  Answered: (state) => withMount(state, { hung: false }),
  FoundReadOnly: (state, { nowMs }) => withMount(state, { readOnlySinceMs: state.mounted?.readOnlySinceMs ?? nowMs }),
  FoundWritable: (state) => withMount(state, { readOnlySinceMs: undefined }),

  OperationStarted: (state, { operation, startedMs }) => {
    refuseSecond(state.running, `${operation.kind} of ${state.handle}`);
    // The grant of an emergency was recorded in advance.
    const phase = operation.emergency === true ? "UnderWay" : "Recording";
    const running = { operation, startedMs, phase, cancellation: undefined } as const;
    return { ...state, running, record: { ...state.record, operation } };
  },
  OperationRecorded: (state) => ({ ...state, running: state.running && { ...state.running, phase: "UnderWay" } }),
  OperationRevoked: (state) => ({ ...state, running: undefined, record: { ...state.record, operation: undefined } }),
  StepReached: (state, { sizeBytes, step }) => {
    const { running } = state;
    return { ...state, sizeBytes, running: running && { ...running, operation: { ...running.operation, step } } };
  },
  FormerCommandFound: (state) => unsettled(state),
  EmergencyFailed: (state, { retryMs }) => ({ ...state, emergencyRetryMs: retryMs }),
  OperationEnded: (state, { lastOperation, sizeBytes, agrees, endedMs }) => {
    const { decidedAt, outcome } = lastOperation;
    const record: NodeRecord = { ...state.record, operation: undefined, lastOperation };
    const ended: NodeVolumeState = {
      ...state,
      // What only an emergency asked for ends no target.
      record: decidedAt === undefined ? record : { ...record, endedDecidedAt: decidedAt },
      sizeBytes,
      running: undefined,
      operationEndedMs: endedMs,
    };
    // A member that has changed says nothing about its filesystem when the operation failed.
    if (outcome === "Failed") return unsettled(ended);
    return agrees ? settled(ended) : ended;
  },
  Settled: (state) => settled(state),
  NotSettled: (state, { message }) => ({ ...state, unsettled: state.unsettled && { problem: message } }),
  CancelRequested: (state, { cancellation }) => {
    const { running, trim, sparePreparation } = state;
    const gaveWay = <R extends Running>(one: R, ends: boolean): R =>
      ends && one.cancellation === undefined ? { ...one, cancellation } : one;
    return {
      ...state,
      running: running && gaveWay(running, cancellation.ends(running.operation.kind)),
      trim: trim && gaveWay(trim, cancellation.ends("Trim")),
      sparePreparation: sparePreparation && gaveWay(sparePreparation, cancellation.ends("SparePreparation")),
    };
  },

  TrimWanted: (state, { at }) => ({ ...state, record: { ...state.record, trimWantedAt: at } }),
  TrimStarted: (state) => {
    refuseSecond(state.trim, `a trim of ${state.handle}`);
    return { ...state, trim: { cancellation: undefined } };
  },
  TrimConcluded: (state, { lastTrim }) => ({ ...state, record: { ...state.record, lastTrim } }),
  TrimEnded: (state) => ({ ...state, trim: undefined }),
};

function refuseSecond(running: Running | undefined, what: string): void {
  if (running !== undefined) throw new Error(`bug: ${what} starts while one runs`);
}

/** From then on the record belongs on the disk: what could not be written is written again. */
function recorded(
  state: NodeVolumeState,
  change: Partial<Pick<NodeRecord, "stagingPath" | "memberMade">>,
): NodeVolumeState {
  return { ...state, record: { ...state.record, ...change }, recorded: true };
}

/** It is whole without those that were in it before. */
function withoutFormer(state: NodeVolumeState): NodeVolumeState {
  const { record } = state;
  return record.backend === "span" ? { ...state, record: { ...record, former: undefined } } : state;
}

/** It says nothing about whether members are held. */
function withoutMount(state: NodeVolumeState): NodeVolumeState {
  const phase = state.phase === "Mounted" ? "Unmounted" : state.phase;
  return settled({ ...state, phase, mounted: undefined, leavingProblem: undefined });
}

function newMount(volume: MountedVolume): PresentMount {
  return { volume, members: [], hung: false, readOnlySinceMs: undefined, moving: undefined, spareProblem: undefined };
}

function withMount(state: NodeVolumeState, change: Partial<PresentMount>): NodeVolumeState {
  return state.phase === "Mounted" ? { ...state, mounted: { ...state.mounted, ...change } } : state;
}

/** Why they could not be made one size before is still true. */
function unsettled(state: NodeVolumeState): NodeVolumeState {
  return { ...state, unsettled: state.unsettled ?? { problem: undefined } };
}

function settled(state: NodeVolumeState): NodeVolumeState {
  return { ...state, unsettled: undefined };
}

function withMembers(state: NodeVolumeState, members: readonly FoundMember[]): NodeVolumeState {
  const { record, problem, leavingProblem } = state;
  // A member file that was cut can get its length back. A disk that was taken away does not come back under a mounted filesystem.
  const isMended = record.backend === "loop" && problem?.reason === "MembersMissing";
  const hasSpare = record.backend === "span" && record.members.some(({ wanted }) => wanted === "Spare");
  return {
    ...withMount(state, hasSpare ? { members } : { members, spareProblem: undefined }),
    problem: isMended ? undefined : problem,
    leavingProblem: members.some((member) => member.state === "Leaving") ? leavingProblem : undefined,
  };
}

/** The record after an emergency has taken these spares for members. */
export function withSparesTaken(record: NodeRecord, names: readonly string[]): NodeRecord {
  if (record.backend !== "span") return record;
  const members = record.members.map(
    (member): SpanMember =>
      names.includes(member.name) && member.wanted === "Spare" ? { ...member, wanted: "Present", taken: true } : member,
  );
  return { ...record, members };
}
