// Makes a volume smaller, once for each token, and never below what the superblock on it proves. A record comes before the work; after a
// crash the volume's size shows whether it was done. The lost part is cleared first, in the token's queue alone: other volumes of its group
// do not wait, and an extend waits for one piece.
import { Refusal } from "../../../contracts/csi/refusal.ts";
import { classState, columnsOf, takenBytes } from "../../classes/class-state.ts";
import { reduceArguments } from "../../lvm/lvm.ts";
import { LvmError, refusalOfLvmError, refusalOrThrow } from "../../lvm/lvm-error.ts";
import { letPoolZero } from "../../pools/thin-pools.ts";
import { refuseWiped } from "../remove-volume.ts";
import { isUnusable, unusable, type VolumeHost } from "../volume-host.ts";
import { type Clearing, clearCut, type HeldDevice, holdDevice } from "./clear-cut.ts";
import { type Found, findFresh, findLeftoverOfAny, groupOf, noVolume, placeOf } from "./find-by-uuid.ts";
import { readSignature } from "./read-signature.ts";
import {
  outcomeOf,
  refusalOfCut,
  refuseKind,
  refuseOtherUse,
  refuseReduceRequest,
  refuseToken,
  targetOf,
} from "./reduce-decision.ts";
import type { ReduceEnd, ReduceRecord, ReduceRequest, ReduceTokens, ReductionUnderWay, Stop } from "./reductions.ts";

/** The size now. */
export async function reduceVolume(host: VolumeHost, tokens: ReduceTokens, request: ReduceRequest): Promise<number> {
  refuseReduceRequest(request);
  return host.queues.run(`token ${request.token}`, async () => {
    const record = tokens.get(request.token);
    if (record !== undefined) refuseOtherUse(record, request);
    if (record !== undefined && record.end.state !== "Begun") return answerOf(record.end);
    if (host.reductions.isReducing(request.volumeUUID))
      throw new Refusal("ABORTED", `another reduction of volume ${request.volumeUUID} is under way`);
    return host.reductions.run(request, async (underWay) => {
      const group = await groupOf(host, request.volumeUUID);
      if (group === undefined) throw noVolume(host, request.volumeUUID);
      return answerOf(await reduce({ host, tokens, request, underWay }, group));
    });
  });
}

/** The outcome of a token; after it nothing of this token starts. */
export async function cancelReduce(
  host: VolumeHost,
  tokens: ReduceTokens,
  token: string,
): Promise<{ readonly reducedTo: number | undefined }> {
  refuseToken(token);
  host.reductions.cancel(token);
  return host.queues.run(`token ${token}`, async () => {
    const record = tokens.get(token);
    if (record === undefined) await refuseWhileLeftover(token);
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
async function refuseWhileLeftover(token: string): Promise<void> {
  const leftover = await findLeftoverOfAny();
  if (leftover === undefined) return;
  throw new Refusal(
    "UNAVAILABLE",
    `unknown token ${token}: a command of a former lvmd may be its reduction and is still running (${leftover}); ` +
      "retry when it has ended",
  );
}

/** At start: decides of each recorded reduction whether it was carried out; one that was not stays open. */
export async function settleReductions(host: VolumeHost, tokens: ReduceTokens): Promise<void> {
  for (const record of tokens.open())
    await host.queues
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
  return host.queues.run(group, async () => settleInTurn(tokens, record, await findFresh(host, request.volumeUUID)));
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

/** One call of ReduceLV, in its token's queue. */
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

/** Nothing is cut in the turn in which it starts: the end is cleared in between, outside of any turn. */
async function reduce(reduction: Reduction, group: string): Promise<ReduceEnd> {
  const { host } = reduction;
  const begun = await host.queues.run(group, () => beginInTurn(reduction));
  if (!("held" in begun)) return begun;
  const stopped = await clear(reduction, begun);
  if (stopped !== undefined) return stopped;
  return host.queues.run(group, async () => {
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
  // Its pool takes nothing back: what is cut off stays this volume's, and no other volume sees it.
  await held.close();
  return cutInTurn(reduction, proved);
}

/** By a report and a superblock that are read in this turn; or how it ends. What is thrown here is not the end of its token. */
async function proveInTurn({ host, tokens, request, underWay }: Reduction): Promise<Proved | ReduceEnd> {
  const found = await findFresh(host, request.volumeUUID);
  const record = tokens.get(request.token);
  const settled = record && (await settleInTurn(tokens, record, found));
  if (settled !== undefined && settled.state !== "Begun") return settled;
  if (found === undefined) throw noVolume(host, request.volumeUUID);
  refuseWiped(found.state.group.name, found.volume);
  let targetBytes: number;
  try {
    targetBytes = await proveTarget(host, request, found);
  } catch (error) {
    return recordRefusal(tokens, request, error);
  }
  const stop = underWay.stopped();
  return stop === undefined ? { ...found, targetBytes } : stoppedEnd(tokens, request, stop);
}

async function proveTarget({ commands }: VolumeHost, request: ReduceRequest, found: Found): Promise<number> {
  const { state, volume } = found;
  const targetBytes = targetOf(request, volume.sizeBytes, state.group.extentBytes * volume.dataColumns);
  const signature = await readSignature(commands, volume.path, targetBytes);
  refuseKind(volume);
  const beyond = refusalOfCut(signature, request.toBytes);
  if (beyond !== undefined) throw beyond;
  return targetBytes;
}

/** A refusal of the volume itself ends its token, on the disk before the answer. Throws every other error. */
async function recordRefusal(tokens: ReduceTokens, request: ReduceRequest, error: unknown): Promise<ReduceEnd> {
  const { code, message } = refusalOrThrow(error);
  return tokens.end(request, { state: "Refused", code, message });
}

/** Undefined: all of it is cleared. LVM has not been asked, so that any other end is known; one that may still be written stays open. */
async function clear(
  { host, tokens, request, underWay }: Reduction,
  { held, clearing, targetBytes }: Begun,
): Promise<ReduceEnd | undefined> {
  try {
    const stop = await clearCut(host, held, clearing, { request, targetBytes, underWay });
    return stop && (await stoppedEnd(tokens, request, stop));
  } catch (error) {
    return await recordRefusal(tokens, request, knownFailure(error));
  } finally {
    await held.close();
  }
}

/** The refusal that a failure of LVM's comes to. What may go on by itself, and what LVM did not throw, is given back as it is. */
function knownFailure(error: unknown): unknown {
  const refusal = refusalOfLvmError(error);
  return refusal === undefined || refusal.code === "DEADLINE_EXCEEDED" ? error : refusal;
}

async function stoppedEnd(tokens: ReduceTokens, request: ReduceRequest, stop: Stop): Promise<ReduceEnd> {
  if (stop.kind === "Preempted") return recordRefusal(tokens, request, stop.refusal);
  await tokens.burn(request.token);
  return { state: "Burnt" };
}

async function cutInTurn({ host, tokens, request }: Reduction, proved: Proved): Promise<ReduceEnd> {
  const { state, volume, targetBytes } = proved;
  try {
    await cut(host, proved, targetBytes);
  } catch (error) {
    return recordRefusal(tokens, request, error);
  }
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

/** Throws a Refusal where it surely was not carried out; after any other throw that is not sure, and the reduction stays open. */
async function cut(host: VolumeHost, { state, volume }: Found, target: number): Promise<void> {
  const group = state.group.name;
  const ignoresFilesystem = await checksFilesystems(host);
  try {
    await host.lvm.run(
      "lvmd-reduce/lvreduce",
      "lvreduce",
      reduceArguments(group, volume.name, target, ignoresFilesystem),
    );
  } catch (error) {
    const failure = knownFailure(error);
    if (failure === error) throw error;
    const now = await findFresh(host, volume.uuid);
    throw now?.volume.sizeBytes === volume.sizeBytes ? failure : error;
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

/** The size that is answered, where there is one: any other end is refused. */
function answerOf(end: ReduceEnd): number {
  switch (end.state) {
    case "Reduced":
      return end.sizeBytes;
    case "Refused":
      throw new Refusal(end.code, end.message);
    case "Burnt":
      throw new Refusal("ABORTED", "the token was cancelled and can no longer reduce a volume");
    case "Begun":
      throw new Refusal("UNAVAILABLE", "what became of the reduction is not known yet");
  }
}
