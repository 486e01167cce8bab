// The agent's calls to its node's lvmd: one connection, a deadline on each, and those that change something as effects. It knows the wire
// and decides nothing.

import { credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import {
  CancelReduceResponse_Outcome,
  type DeviceClass,
  type ExtendThinPoolRequest,
  LvmdClient,
  type ReduceLVRequest,
  type Volume,
} from "../../contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import {
  type CreateLVRequest,
  type CreateLVSnapshotRequest,
  type GetLVListResponse,
  type LogicalVolume,
  LVServiceClient,
  VGServiceClient,
} from "../../contracts/gen/topolvm/lvmd.ts";
import type { Effects } from "../../platform/process/effects/effects.ts";
import { callAsEffect, SOCKET_OPTIONS } from "../../platform/process/grpc.ts";

/** Sizes are bytes. All throw LvmdError. */
export interface LvmdCalls {
  /** Undefined where there is none; a class that is not there is an error. */
  volume(deviceClass: string, name: string): Promise<Volume | undefined>;
  volumes(deviceClass: string): Promise<readonly LogicalVolume[]>;
  /** Returns its size. One that is there already with this name and size is that one. */
  create(request: CreateLVRequest): Promise<number>;
  createSnapshot(request: CreateLVSnapshotRequest): Promise<void>;
  /** Never made smaller. */
  resize(deviceClass: string, name: string, sizeBytes: number): Promise<void>;
  /** Returns the size reached. Once the signal aborts the call no longer waits for it: the caller that aborts also cancels the token. */
  reduce(request: ReduceLVRequest, signal: AbortSignal): Promise<number>;
  /** After the answer no reduction with this token begins. */
  cancelReduce(token: string): Promise<"Burnt" | "Reduced">;
  addTag(deviceClass: string, name: string, tag: string): Promise<void>;
  removeTag(deviceClass: string, name: string, tag: string): Promise<void>;
  /** One that is active stays so. */
  activate(deviceClass: string, name: string): Promise<void>;
  wipeAndRemove(deviceClass: string, name: string): Promise<void>;
  /** The volume gets back what it held when the snapshot was taken; where that snapshot no longer exists the volume is only activated. */
  mergeSnapshot(deviceClass: string, name: string, snapshot: string): Promise<void>;
  /** The pool's data and metadata; what is that large already stays. */
  extendThinPool(request: ExtendThinPoolRequest): Promise<void>;
}

const QUERY_LIMIT_MS = 10_000;
/** LVM's commands take tenths of a second, one after the other for each volume group. */
const CHANGE_LIMIT_MS = 60_000;
/** lvmd overwrites a thick volume, or its end, before it removes that; a repeated call waits for the same overwrite. */
const WIPE_LIMIT_MS = 600_000;

type Deadline = { readonly deadline: number };
type Callback<Response> = (error: ServiceError | null, response: Response) => void;

export interface LvmdConnection {
  readonly calls: LvmdCalls;
  /** Of our own service, for its stream. */
  readonly client: LvmdClient;
  close(): void;
}

export function connectLvmd(socketPath: string, effects: Effects): LvmdConnection {
  const address = `unix://${socketPath}`;
  const client = new LvmdClient(address, credentials.createInsecure(), SOCKET_OPTIONS);
  const volumeService = new LVServiceClient(address, credentials.createInsecure(), SOCKET_OPTIONS);
  const groupService = new VGServiceClient(address, credentials.createInsecure(), SOCKET_OPTIONS);
  return {
    calls: { ...topolvmCalls(volumeService, groupService, effects), ...ownCalls(client, effects) },
    client,
    close: () => {
      for (const each of [client, volumeService, groupService]) each.close();
    },
  };
}

type TopolvmCall = "volumes" | "create" | "createSnapshot" | "resize";

/** What TopoLVM's own protocol has, as lvmd answers it. */
function topolvmCalls(
  volumeService: LVServiceClient,
  groupService: VGServiceClient,
  effects: Effects,
): Pick<LvmdCalls, TopolvmCall> {
  const metadata = new Metadata();
  return {
    volumes: async (deviceClass) => {
      const task = `listing the volumes of device class ${deviceClass}`;
      const list = groupService.getLvList.bind(groupService);
      const start = (options: Deadline, callback: Callback<GetLVListResponse>): void =>
        void list({ deviceClass }, metadata, options, callback);
      return (await query(task, start)).volumes;
    },
    create: async (request) => {
      const create = volumeService.createLv.bind(volumeService);
      const call = callAsEffect(effects, "logical-volume/create", create, request, metadata, CHANGE_LIMIT_MS);
      const task = `making volume ${request.name} of device class ${request.deviceClass}`;
      const { volume } = await answerOf(call, task);
      if (volume === undefined) throw new LvmdError(status.UNKNOWN, "an answer without a volume", task);
      return volume.sizeBytes;
    },
    createSnapshot: async (request) => {
      const create = volumeService.createLvSnapshot.bind(volumeService);
      const call = callAsEffect(effects, "logical-volume/snapshot", create, request, metadata, CHANGE_LIMIT_MS);
      await answerOf(call, `making snapshot ${request.name} of volume ${request.sourceVolume}`);
    },
    resize: async (deviceClass, name, sizeBytes) => {
      const request = { deviceClass, name, sizeBytes };
      const resize = volumeService.resizeLv.bind(volumeService);
      const call = callAsEffect(effects, "extend/grow-volume", resize, request, metadata, CHANGE_LIMIT_MS);
      await answerOf(call, `growing volume ${name} of device class ${deviceClass} to ${sizeBytes} bytes`);
    },
  };
}

/** What lvmd does beyond that. */
function ownCalls(client: LvmdClient, effects: Effects): Omit<LvmdCalls, TopolvmCall> {
  const metadata = new Metadata();
  return {
    volume: (deviceClass, name) => findVolume(client, deviceClass, name),
    reduce: async (request, signal) => {
      const reduce = client.reduceLv.bind(client);
      const call = callAsEffect(effects, "shrink/reduce-volume", reduce, request, metadata, WIPE_LIMIT_MS, signal);
      const { lvUuid, fromBytes, toBytes } = request;
      return (await answerOf(call, `reducing volume ${lvUuid} from ${fromBytes} to ${toBytes} bytes`)).sizeBytes;
    },
    cancelReduce: async (token) => {
      const cancel = client.cancelReduce.bind(client);
      const call = callAsEffect(effects, "shrink/cancel-reduce", cancel, { token }, metadata, CHANGE_LIMIT_MS);
      const task = `cancelling reduction ${token}`;
      return outcomeOf((await answerOf(call, task)).outcome, task);
    },
    addTag: async (deviceClass, name, tag) => {
      const request = { deviceClass, name, add: [tag], remove: [] };
      const change = client.changeTags.bind(client);
      const call = callAsEffect(effects, "stage/tag-volume", change, request, metadata, CHANGE_LIMIT_MS);
      await answerOf(call, `tagging volume ${name} of device class ${deviceClass}`);
    },
    removeTag: async (deviceClass, name, tag) => {
      const request = { deviceClass, name, add: [], remove: [tag] };
      const change = client.changeTags.bind(client);
      const call = callAsEffect(effects, "stage/untag-volume", change, request, metadata, CHANGE_LIMIT_MS);
      await answerOf(call, `taking tag ${tag} from volume ${name} of device class ${deviceClass}`);
    },
    activate: async (deviceClass, name) => {
      const activate = client.activateLv.bind(client);
      const request = { deviceClass, name };
      const call = callAsEffect(effects, "stage/activate-volume", activate, request, metadata, CHANGE_LIMIT_MS);
      await answerOf(call, `activating volume ${name} of device class ${deviceClass}`);
    },
    wipeAndRemove: async (deviceClass, name) => {
      const remove = client.wipeAndRemoveLv.bind(client);
      const request = { deviceClass, name };
      const call = callAsEffect(effects, "remove/volume", remove, request, metadata, WIPE_LIMIT_MS);
      await answerOf(call, `removing volume ${name} of device class ${deviceClass}`);
    },
    mergeSnapshot: async (deviceClass, name, snapshot) => {
      const merge = client.mergeSnapshot.bind(client);
      const request = { deviceClass, name, snapshot };
      const call = callAsEffect(effects, "unmounted-shrink/merge", merge, request, metadata, CHANGE_LIMIT_MS);
      await answerOf(call, `merging snapshot ${snapshot} into volume ${name} of device class ${deviceClass}`);
    },
    extendThinPool: async (request) => {
      const extend = client.extendThinPool.bind(client);
      const call = callAsEffect(effects, "thin-pool/extend", extend, request, metadata, CHANGE_LIMIT_MS);
      await answerOf(call, `extending the thin pool of device class ${request.deviceClass}`);
    },
  };
}

async function findVolume(client: LvmdClient, deviceClass: string, name: string): Promise<Volume | undefined> {
  const get = client.getVolume.bind(client);
  const task = `looking for volume ${name} of device class ${deviceClass}`;
  try {
    return await query(task, (options, callback) => get({ deviceClass, name }, new Metadata(), options, callback));
  } catch (error) {
    if (error instanceof LvmdError && error.code === status.NOT_FOUND) return undefined;
    throw error;
  }
}

function query<Response>(
  task: string,
  start: (options: Deadline, callback: Callback<Response>) => void,
): Promise<Response> {
  const answer = new Promise<Response>((resolve, reject) => {
    start({ deadline: Date.now() + QUERY_LIMIT_MS }, (error, response) =>
      error === null ? resolve(response) : reject(error),
    );
  });
  return answerOf(answer, task);
}

async function answerOf<Response>(call: Promise<Response>, task: string): Promise<Response> {
  try {
    return await call;
  } catch (error) {
    throw lvmdErrorOf(error, task);
  }
}

/** Throws on an answer that names neither outcome. */
function outcomeOf(outcome: CancelReduceResponse_Outcome, task: string): "Burnt" | "Reduced" {
  switch (outcome) {
    case CancelReduceResponse_Outcome.BURNT:
      return "Burnt";
    case CancelReduceResponse_Outcome.REDUCED:
      return "Reduced";
    default:
      throw new LvmdError(status.UNKNOWN, `outcome ${outcome}, which this agent does not know`, task);
  }
}

/** The one error of the calls to lvmd. The message names the call, what it was about, and what was said. */
export class LvmdError extends Error {
  override name = "LvmdError";
  readonly code: status;
  /** In lvmd's and LVM's words alone. */
  readonly said: string;

  constructor(code: status, said: string, task: string, cause?: unknown) {
    super(`${task}: lvmd answered ${status[code]}: ${said}`, { cause });
    this.code = code;
    this.said = said;
  }
}

/** Statuses that leave the outcome of a call unknown: lvmd may still carry it out, or has done so. */
const UNANSWERED: readonly status[] = [status.UNAVAILABLE, status.DEADLINE_EXCEEDED, status.CANCELLED, status.UNKNOWN];

export function isUnanswered({ code }: LvmdError): boolean {
  return UNANSWERED.includes(code);
}

function lvmdErrorOf(error: unknown, task: string): LvmdError {
  const { code, details } = error as Partial<ServiceError>;
  return new LvmdError(code ?? status.UNKNOWN, details ?? String(error), task, error);
}

export interface DeviceClasses {
  /** Undefined: lvmd has not been heard yet. */
  list(): readonly DeviceClass[] | undefined;
  /** Undefined: no class has this name, or lvmd has not been heard yet. */
  get(name: string): DeviceClass | undefined;
  /** Calls back after each change of what is listed. */
  subscribe(changed: () => void): void;
}
