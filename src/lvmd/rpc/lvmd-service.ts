// tidemark.lvmd.v1.Lvmd: what TopoLVM's services lack. Only wire: requests in, answers out.
import { isDeepStrictEqual } from "node:util";
import {
  type LvmdServer,
  LvmdService,
  CancelReduceResponse_Outcome as Outcome,
  type Volume,
  type WatchClassesResponse,
  type DeviceClass as WireClass,
} from "../../contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import type { GrpcService } from "../../platform/process/grpc.ts";
import { type ClassState, classState, type UnusableClass } from "../classes/class-state.ts";
import { isDeviceOf, readFiguresOf } from "../devices.ts";
import { activateVolume, changeTags, renameVolume } from "../volumes/change-attributes.ts";
import { cancelReduce, reduceVolume } from "../volumes/reduce/reduce-volume.ts";
import type { ReduceTokens } from "../volumes/reduce/reductions.ts";
import { wipeAndRemove } from "../volumes/remove-volume.ts";
import { extendThinPool } from "../volumes/resize-volume.ts";
import { impairment, unreportedFill } from "../volumes/sizes.ts";
import { mergeSnapshot } from "../volumes/snapshots.ts";
import {
  classOf,
  type FoundVolume,
  freshVolumeOf,
  isUnusable,
  type VolumeHost,
  volumeOf,
} from "../volumes/volume-host.ts";
import { createNewestStreams, type LvmdMethod, readableRequests } from "./methods.ts";

export function createLvmdService(
  method: LvmdMethod,
  host: VolumeHost,
  tokens: ReduceTokens,
): GrpcService & { changed(): void } {
  const streams = createNewestStreams(
    () => (host.reports.latest() === undefined ? undefined : watchClassesResponse(host)),
    (one, other) => isDeepStrictEqual(inWholePercent(one), inWholePercent(other)),
  );
  const implementation: LvmdServer = {
    getVolume: method("GetVolume", async (request) => wireVolume(await getVolume(host, request))),
    reduceLv: method("ReduceLV", async ({ lvUuid, fromBytes, toBytes, token }) => {
      const size = await reduceVolume(host, tokens, { volumeUUID: lvUuid, fromBytes, toBytes, token });
      return { sizeBytes: size };
    }),
    cancelReduce: method("CancelReduce", async ({ token }) => {
      const { reducedTo } = await cancelReduce(host, tokens, token);
      return { outcome: reducedTo === undefined ? Outcome.BURNT : Outcome.REDUCED, sizeBytes: reducedTo ?? 0 };
    }),
    extendThinPool: method("ExtendThinPool", async ({ deviceClass, sizeBytes, metadataSizeBytes }) => {
      const sizes = await extendThinPool(host, deviceClass, { sizeBytes, metadataSizeBytes });
      return { sizeBytes: sizes.sizeBytes, metadataSizeBytes: sizes.metadataSizeBytes };
    }),
    wipeAndRemoveLv: method("WipeAndRemoveLV", async ({ name, deviceClass }) => {
      await wipeAndRemove(host, deviceClass, name);
      return {};
    }),
    activateLv: method("ActivateLV", async ({ name, deviceClass }) =>
      wireVolume(await activateVolume(host, deviceClass, name)),
    ),
    mergeSnapshot: method("MergeSnapshot", async (request) => wireVolume(await mergeSnapshot(host, request))),
    renameLv: method("RenameLV", async ({ name, deviceClass, newName }) =>
      wireVolume(await renameVolume(host, deviceClass, name, newName)),
    ),
    changeTags: method("ChangeTags", async ({ name, deviceClass, add, remove }) =>
      wireVolume(await changeTags(host, deviceClass, name, { add, remove })),
    ),
    watchClasses: streams.open,
  };
  return { definition: readableRequests(LvmdService), implementation, changed: streams.changed };
}

async function getVolume(
  host: VolumeHost,
  { deviceClass: className, name }: { deviceClass: string; name: string },
): Promise<FoundVolume> {
  const deviceClass = classOf(host, className);
  let found = await volumeOf(host, deviceClass, name);
  if (isJustMade(found)) {
    await host.reports.settled();
    found = await volumeOf(host, deviceClass, name);
  }
  const { uuid, device } = found.volume;
  if (!isJustMade(found) && (await isDeviceOf(device, uuid))) return found;
  // It was activated or released since, which changes nothing that lvmd hears of.
  return freshVolumeOf(host, deviceClass, name);
}

/** By lvmd, where device-mapper does not report its UUID. */
function isJustMade({ volume }: FoundVolume): boolean {
  return volume.uuid === "";
}

function wireVolume({ state, volume }: FoundVolume): Volume {
  return {
    name: volume.name,
    uuid: volume.uuid,
    deviceClass: state.deviceClass.name,
    sizeBytes: volume.sizeBytes,
    path: volume.path,
    devMajor: volume.device?.major ?? 0,
    devMinor: volume.device?.minor ?? 0,
    tags: [...volume.tags],
    attr: volume.attr,
    thin: state.thin !== undefined,
    origin: volume.origin,
    dataPercent: volume.dataPercent,
    io: readFiguresOf(volume.device),
  };
}

function watchClassesResponse({ settings, reports, poolProblems }: VolumeHost): WatchClassesResponse {
  const states = settings().deviceClasses.map((deviceClass) => classState(reports.latest(), deviceClass));
  const unheard = reports.problem();
  return { classes: states.map((state) => wireClass(state, unheard, poolProblems)) };
}

function wireClass(
  state: ClassState | UnusableClass,
  unheard: string | undefined,
  poolProblems: ReadonlyMap<string, string>,
): WireClass {
  const { name, isDefault, volumeGroup, spareBytes } = state.deviceClass;
  const common = { name, isDefault, volumeGroup, spareBytes };
  if (isUnusable(state))
    return { ...common, sizeBytes: 0, freeBytes: 0, sizeGrainBytes: 0, thinPool: undefined, problem: state.problem };
  const { group, thin } = state;
  const problem = unheard ?? impairment(state) ?? unreportedFill(state, poolProblems) ?? "";
  return {
    ...common,
    sizeBytes: state.sizeBytes,
    freeBytes: problem === "" ? state.freeBytes : 0,
    sizeGrainBytes: state.grainBytes,
    thinPool: thin && {
      name: thin.pool.name,
      sizeBytes: thin.pool.sizeBytes,
      dataPercent: thin.pool.dataPercent,
      metadataPercent: thin.pool.metadataPercent,
      metadataSizeBytes: thin.pool.metadataSizeBytes,
      overprovisionRatio: thin.settings.overprovisionRatio,
      groupFreeBytes: Math.max(0, group.freeBytes - spareBytes),
    },
    problem,
  };
}

function inWholePercent({ classes }: WatchClassesResponse): WireClass[] {
  return classes.map((wireClass) => ({
    ...wireClass,
    thinPool: wireClass.thinPool && {
      ...wireClass.thinPool,
      dataPercent: Math.floor(wireClass.thinPool.dataPercent),
      metadataPercent: Math.floor(wireClass.thinPool.metadataPercent),
    },
  }));
}
