// Makes a volume smaller, once for each token, and never below what the superblock on it proves. Before LVM is asked a record says
// what is to be done; after a crash the volume's size tells whether it was.
import { Refusal } from "../../csi/refusal.ts";
import { type ClassState, classState } from "../classes/class-state.ts";
import { columnsOf } from "../classes/columns.ts";
import { takenBytes } from "../classes/room.ts";
import { reduceArguments } from "../lvm/arguments.ts";
import { LvmError, refusalOfLvmError } from "../lvm/lvm-error.ts";
import type { ReportedVolume } from "../lvm/report.ts";
import { findLeftoverReduce } from "./leftover-commands.ts";
import { readSignature } from "./read-signature.ts";
import { outcomeOf, refuseCut, refuseOtherUse, refuseReduceRequest, refuseToken, targetOf } from "./reduce-decision.ts";
import { type ReduceEnd, type ReduceRecord, type ReduceRequest, type ReduceTokens } from "./reduce-tokens.ts";
import { isUnusable, latestReport, unusable, type VolumeHost } from "./volume-host.ts";
import { refuseWiped } from "./wipe-mark.ts";

/** What is reduced: a volume of one of the classes, found by LVM's own UUID. */
interface Found {
  readonly state: ClassState;
  readonly volume: ReportedVolume;
}

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
    const group = await groupOf(host, request.volumeUUID);
    if (group === undefined) return noVolume(host, request.volumeUUID);
    return host.lanes.run(group, async () => answerOf(await reduceInTurn(host, tokens, request)));
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
  return host.lanes.run(`token ${token}`, async () => {
    const record = tokens.get(token);
    const end = record?.end.state === "Begun" ? await settle(host, tokens, record) : record?.end;
    if (end?.state === "Reduced") return { reducedTo: end.sizeBytes };
    if (end?.state !== "Burnt") await tokens.burn(token);
    return { reducedTo: undefined };
  });
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

async function reduceInTurn(host: VolumeHost, tokens: ReduceTokens, request: ReduceRequest): Promise<ReduceEnd> {
  const found = await findFresh(host, request.volumeUUID);
  const record = tokens.get(request.token);
  const settled = record && (await settleInTurn(tokens, record, found));
  if (settled !== undefined && settled.state !== "Begun") return settled;
  if (found === undefined) return refusedEnd(noVolume(host, request.volumeUUID));
  const { state, volume } = found;
  const wiped = refuseWiped(state.group.name, volume);
  if (wiped !== undefined) return refusedEnd(wiped);
  const target = targetOf(request, volume.sizeBytes, state.group.extentBytes * volume.dataColumns);
  if (target instanceof Refusal) return tokens.end(request, refusedEnd(target));
  const signature = await readSignature(host.commands, volume.path, target);
  const refusal = refuseCut(signature, request.toBytes);
  if (refusal !== undefined) return tokens.end(request, refusedEnd(refusal));
  if (target === volume.sizeBytes) return tokens.end(request, { state: "Reduced", sizeBytes: target });
  await tokens.begin(request, target);
  const { group } = state;
  const failure = await cut(host, found, target);
  if (failure !== undefined) return tokens.end(request, refusedEnd(failure));
  host.reports.note({
    kind: "Resized",
    group: group.name,
    name: volume.name,
    sizeBytes: target,
    takenBytes:
      state.thin === undefined ? -takenBytes(volume.sizeBytes - target, columnsOf(state.deviceClass, undefined)) : 0,
  });
  return tokens.end(request, { state: "Reduced", sizeBytes: target });
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

async function groupOf(host: VolumeHost, volumeUUID: string): Promise<string | undefined> {
  await latestReport(host);
  return (find(host, volumeUUID) ?? (await findFresh(host, volumeUUID)))?.state.group.name;
}

/** By a report that was begun now; what a former lvmd has left running would not be in it. */
async function findFresh(host: VolumeHost, volumeUUID: string): Promise<Found | undefined> {
  const known = find(host, volumeUUID);
  const leftover = known && findLeftoverReduce(known.state.group.name, known.volume.name);
  if (leftover !== undefined) throw new LvmError("Hung", `this has been begun before and has not ended: ${leftover}`);
  await host.reports.fresh();
  return find(host, volumeUUID);
}

function find({ settings, reports }: VolumeHost, volumeUUID: string): Found | undefined {
  for (const deviceClass of settings().deviceClasses) {
    const state = classState(reports.latest(), deviceClass);
    if (isUnusable(state)) continue;
    for (const volume of state.group.volumes.values())
      if (volume.uuid === volumeUUID && volume.pool === (state.thin?.pool.name ?? "")) return { state, volume };
  }
  return undefined;
}

/** From 2.03.17 LVM looks at filesystems by itself, and knows fewer than are proved here. */
async function checksFilesystems({ lvm }: VolumeHost): Promise<boolean> {
  const [, major, minor, patch] = /LVM version:\s+(\d+)\.(\d+)\.(\d+)/.exec(await lvm.query("version", [])) ?? [];
  return Number(major) * 1_000_000 + Number(minor) * 1000 + Number(patch) >= 2_003_017;
}

function requestOf({ volumeUUID = "", fromBytes = 0, toBytes = 0, token }: ReduceRecord): ReduceRequest {
  return { volumeUUID, fromBytes, toBytes, token };
}

function noVolume(host: VolumeHost, volumeUUID: string): Refusal {
  const place = placeOf(host, volumeUUID);
  if (place === undefined) return new Refusal("NOT_FOUND", `no device class has a volume with the UUID ${volumeUUID}`);
  return new Refusal("FAILED_PRECONDITION", `volume ${place} is of no device class: point its class at it`);
}

/** Of a volume that no class points at. */
function placeOf({ reports }: VolumeHost, volumeUUID: string): string | undefined {
  for (const group of reports.latest()?.values() ?? [])
    for (const { name, uuid } of group.volumes.values()) if (uuid === volumeUUID) return `${group.name}/${name}`;
  return undefined;
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
