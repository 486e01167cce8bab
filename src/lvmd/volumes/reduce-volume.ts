// Makes a volume smaller, once for each token, and never below what the superblock on it proves. Before anything is done a record says
// what is to be done; after a crash the volume's size tells whether it was. What it loses is cleared first, in the token's lane alone: other
// volumes of its group do not wait for that, and whoever wants it to grow waits for one piece.
import { Refusal } from "../../csi/refusal.ts";
import { classState } from "../classes/class-state.ts";
import { columnsOf } from "../classes/columns.ts";
import { takenBytes } from "../classes/room.ts";
import { reduceArguments } from "../lvm/arguments.ts";
import { LvmError, refusalOfLvmError } from "../lvm/lvm-error.ts";
import { letPoolZero } from "../pools/ready-pool.ts";
import { type Clearing, clearCut, type HeldDevice, holdDevice } from "./clear-cut.ts";
import { type Found, findFresh, groupOf, noVolume, placeOf } from "./find-by-uuid.ts";
import { findLeftoverOfAny } from "./leftover-commands.ts";
import { readSignature } from "./read-signature.ts";
import {
  outcomeOf,
  refuseCut,
  refuseKind,
  refuseOtherUse,
  refuseReduceRequest,
  refuseToken,
  targetOf,
} from "./reduce-decision.ts";
import { type ReduceEnd, type ReduceRecord, type ReduceRequest, type ReduceTokens } from "./reduce-tokens.ts";
import type { ReductionUnderWay, Stop } from "./reductions-under-way.ts";
import { isUnusable, unusable, type VolumeHost } from "./volume-host.ts";
import { refuseWiped } from "./wipe-mark.ts";

/** The size now. */
export async function reduceVolume(
  host: VolumeHost,
  tokens: ReduceTokens,
  request: ReduceRequest,
): Promise<number | Refusal> {
  const refusal = refuseReduceRequest(request);
  if (refusal !== undefined) return refusal;
  return host.lanes.run(`token ${request.token}`, async () => {
    const record = tokens.get(request.token);
    const other = record && refuseOtherUse(record, request);
    if (other !== undefined) return other;
    if (record !== undefined && record.end.state !== "Begun") return answerOf(record.end);
    if (host.reductions.isReducing(request.volumeUUID))
      return new Refusal("ABORTED", `another reduction of volume ${request.volumeUUID} is under way`);
    return host.reductions.run(request, async (underWay) => {
      const group = await groupOf(host, request.volumeUUID);
      if (group === undefined) return noVolume(host, request.volumeUUID);
      return answerOf(await reduce({ host, tokens, request, underWay }, group));
    });
  });
}

/** The outcome of a token; after it nothing of this token begins any more. */
export async function cancelReduce(
  host: VolumeHost,
  tokens: ReduceTokens,
  token: string,
): Promise<{ readonly reducedTo: number | undefined } | Refusal> {
  const refusal = refuseToken(token);
  if (refusal !== undefined) return refusal;
  host.reductions.cancel(token);
  return host.lanes.run(`token ${token}`, async () => {
    const record = tokens.get(token);
    const notYet = record === undefined ? await refuseWhileLeftover(token) : undefined;
    if (notYet !== undefined) return notYet;
    const end = record?.end.state === "Begun" ? await settle(host, tokens, record) : record?.end;
    if (end?.state === "Reduced") return { reducedTo: end.sizeBytes };
    if (end?.state !== "Burnt") await tokens.burn(token);
    return { reducedTo: undefined };
  });
}

/**
 * A state directory that was lost may have known the token, and its volume: each command that a former lvmd may have left behind can be its
 * reduction. What this lvmd has begun is of tokens that it knows.
 */
async function refuseWhileLeftover(token: string): Promise<Refusal | undefined> {
  const leftover = await findLeftoverOfAny();
  if (leftover === undefined) return undefined;
  return new Refusal(
    "UNAVAILABLE",
    `nothing is known of the token ${token}, and its reduction may be what has been begun before and has not ended: ${leftover}; ` +
      "ask again once it has",
  );
}

/** At start: tells of each begun reduction whether it was carried out; one that was not stays open. */
export async function settleReductions(host: VolumeHost, tokens: ReduceTokens): Promise<void> {
  for (const record of tokens.open())
    await host.lanes
      .run(`token ${record.token}`, () => settle(host, tokens, record))
      .catch((err: unknown) =>
        host.log.warn({ token: record.token, err }, "what became of a reduction is not known yet"),
      );
}

async function settle(host: VolumeHost, tokens: ReduceTokens, record: ReduceRecord): Promise<ReduceEnd> {
  const request = requestOf(record);
  const group = await groupOf(host, request.volumeUUID);
  if (group === undefined) {
    refuseUnlessAllSeen(host, request.volumeUUID);
    return record.end;
  }
  return host.lanes.run(group, async () => settleInTurn(tokens, record, await findFresh(host, request.volumeUUID)));
}

/** A volume of a group that is not there now, or that no class points at now, may be smaller already. */
function refuseUnlessAllSeen(host: VolumeHost, volumeUUID: string): void {
  const { settings, reports } = host;
  if (placeOf(host, volumeUUID) !== undefined) throw new LvmError("DeviceMissing", noVolume(host, volumeUUID).message);
  for (const deviceClass of settings().deviceClasses) {
    const state = classState(reports.latest(), deviceClass);
    if (isUnusable(state)) throw new LvmError("DeviceMissing", unusable(state).message);
  }
}

/** In the group's turn, with a report that was made in it. */
async function settleInTurn(tokens: ReduceTokens, record: ReduceRecord, found: Found | undefined): Promise<ReduceEnd> {
  const { end } = record;
  if (end.state !== "Begun" || found === undefined) return end;
  const { volume } = found;
  if (outcomeOf(volume.sizeBytes, record, end.targetBytes) !== "Reduced") return end;
  return tokens.end(requestOf(record), { state: "Reduced", sizeBytes: volume.sizeBytes });
}

/** One call of ReduceLV, in its token's lane. */
interface Reduction {
  readonly host: VolumeHost;
  readonly tokens: ReduceTokens;
  readonly request: ReduceRequest;
  readonly underWay: ReductionUnderWay;
}

/** What may be cut: nothing of the filesystem is behind `targetBytes`. */
interface Proved extends Found {
  readonly targetBytes: number;
}

/** Nothing is cut in the turn in which it is begun: the end is cleared in between, in nobody's turn. */
async function reduce(reduction: Reduction, group: string): Promise<ReduceEnd> {
  const { host } = reduction;
  const begun = await host.lanes.run(group, () => beginInTurn(reduction));
  if (!("held" in begun)) return begun;
  const stopped = await clear(reduction, begun);
  if (stopped !== undefined) return stopped;
  return host.lanes.run(group, async () => {
    const proved = await proveInTurn(reduction);
    return "volume" in proved ? cutInTurn(reduction, proved) : proved;
  });
}

interface Begun {
  readonly held: HeldDevice;
  readonly clearing: Clearing;
  readonly targetBytes: number;
}

async function beginInTurn(reduction: Reduction): Promise<ReduceEnd | Begun> {
  const { host, tokens, request } = reduction;
  const proved = await proveInTurn(reduction);
  if (!("volume" in proved)) return proved;
  const { state, volume, targetBytes } = proved;
  if (targetBytes === volume.sizeBytes) return tokens.end(request, { state: "Reduced", sizeBytes: targetBytes });
  await letPoolZero(host, state.group.name, state.thin?.pool);
  await tokens.begin(request, targetBytes);
  const held = await holdDevice(volume);
  if (state.thin === undefined) return { held, clearing: "zero", targetBytes };
  if (held.discards) return { held, clearing: "discard", targetBytes };
  // Its pool takes nothing back: what is cut off stays this volume's, and is nobody else's to see.
  await held.close();
  return cutInTurn(reduction, proved);
}

/** By a report and a superblock that are read in this turn; or how it ends. */
async function proveInTurn({ host, tokens, request, underWay }: Reduction): Promise<Proved | ReduceEnd> {
  const found = await findFresh(host, request.volumeUUID);
  const record = tokens.get(request.token);
  const settled = record && (await settleInTurn(tokens, record, found));
  if (settled !== undefined && settled.state !== "Begun") return settled;
  if (found === undefined) return refusedEnd(noVolume(host, request.volumeUUID));
  const { state, volume } = found;
  const wiped = refuseWiped(state.group.name, volume);
  if (wiped !== undefined) return refusedEnd(wiped);
  const targetBytes = targetOf(request, volume.sizeBytes, state.group.extentBytes * volume.dataColumns);
  if (targetBytes instanceof Refusal) return tokens.end(request, refusedEnd(targetBytes));
  const signature = await readSignature(host.commands, volume.path, targetBytes);
  const refusal = refuseKind(volume) ?? refuseCut(signature, request.toBytes);
  if (refusal !== undefined) return tokens.end(request, refusedEnd(refusal));
  const stop = underWay.stopped();
  return stop === undefined ? { ...found, targetBytes } : stoppedEnd(tokens, request, stop);
}

/** Undefined: all of it is cleared. LVM has not been asked, so that any other end is known; one that may still be written stays open. */
async function clear(
  { host, tokens, request, underWay }: Reduction,
  { held, clearing, targetBytes }: Begun,
): Promise<ReduceEnd | undefined> {
  try {
    const stop = await clearCut(host, held, clearing, { request, targetBytes, underWay });
    if (stop === undefined) return undefined;
    return stop instanceof Refusal
      ? await tokens.end(request, refusedEnd(stop))
      : await stoppedEnd(tokens, request, stop);
  } catch (error) {
    const refusal = refusalOfLvmError(error);
    if (refusal === undefined || refusal.code === "DEADLINE_EXCEEDED") throw error;
    return tokens.end(request, refusedEnd(refusal));
  } finally {
    await held.close();
  }
}

async function stoppedEnd(tokens: ReduceTokens, request: ReduceRequest, stop: Stop): Promise<ReduceEnd> {
  if (stop.kind === "Preempted") return tokens.end(request, refusedEnd(stop.refusal));
  await tokens.burn(request.token);
  return { state: "Burnt" };
}

async function cutInTurn({ host, tokens, request }: Reduction, proved: Proved): Promise<ReduceEnd> {
  const { state, volume, targetBytes } = proved;
  const failure = await cut(host, proved, targetBytes);
  if (failure !== undefined) return tokens.end(request, refusedEnd(failure));
  host.reports.note({
    kind: "Resized",
    group: state.group.name,
    name: volume.name,
    sizeBytes: targetBytes,
    takenBytes:
      state.thin === undefined
        ? -takenBytes(volume.sizeBytes - targetBytes, columnsOf(state.deviceClass, undefined))
        : 0,
  });
  return tokens.end(request, { state: "Reduced", sizeBytes: targetBytes });
}

/** Undefined: it was carried out. Where that is not sure it throws, and the reduction stays open. */
async function cut(host: VolumeHost, { state, volume }: Found, target: number): Promise<Refusal | undefined> {
  const group = state.group.name;
  const ignoresFilesystem = await checksFilesystems(host);
  try {
    await host.lvm.run(
      "lvmd-reduce/lvreduce",
      "lvreduce",
      reduceArguments(group, volume.name, target, ignoresFilesystem),
    );
    return undefined;
  } catch (error) {
    const refusal = refusalOfLvmError(error);
    if (refusal === undefined || refusal.code === "DEADLINE_EXCEEDED") throw error;
    const now = await findFresh(host, volume.uuid);
    if (now?.volume.sizeBytes !== volume.sizeBytes) throw error;
    return refusal;
  }
}

/** From 2.03.17 LVM looks at filesystems by itself, and knows fewer than are proved here. */
async function checksFilesystems({ lvm }: VolumeHost): Promise<boolean> {
  const [, major, minor, patch] = /LVM version:\s+(\d+)\.(\d+)\.(\d+)/.exec(await lvm.query("version", [])) ?? [];
  return Number(major) * 1_000_000 + Number(minor) * 1000 + Number(patch) >= 2_003_017;
}

function requestOf({ volumeUUID = "", fromBytes = 0, toBytes = 0, token }: ReduceRecord): ReduceRequest {
  return { volumeUUID, fromBytes, toBytes, token };
}

function refusedEnd({ code, message }: Refusal): ReduceEnd {
  return { state: "Refused", code, message };
}

function answerOf(end: ReduceEnd): number | Refusal {
  switch (end.state) {
    case "Reduced":
      return end.sizeBytes;
    case "Refused":
      return new Refusal(end.code, end.message);
    case "Burnt":
      return new Refusal("ABORTED", "the token was cancelled: nothing is reduced by it any more");
    case "Begun":
      return new Refusal("UNAVAILABLE", "what became of the reduction is not known yet");
  }
}
