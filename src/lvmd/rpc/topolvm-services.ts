// TopoLVM's services: proto.LVService changes volumes, proto.VGService answers from the last report. Only wire: requests in, answers out.

import { isDeepStrictEqual } from "node:util";
import {
  type GetFreeBytesRequest,
  type GetFreeBytesResponse,
  type GetLVListRequest,
  GetLVListResponse,
  type LogicalVolume,
  type LVServiceServer,
  LVServiceService,
  VGServiceService,
  type WatchItem,
  type WatchResponse,
} from "../../contracts/gen/topolvm/lvmd.ts";
import type { GrpcService } from "../../platform/process/grpc.ts";
import { type ClassState, classState, promisableBytes, volumesOf } from "../classes/class-state.ts";
import type { Report, ReportedVolume } from "../lvm/report.ts";
import type { DeviceClass } from "../settings/settings.ts";
import { createVolume, type MadeVolume } from "../volumes/create-volume.ts";
import type { ReduceTokens } from "../volumes/reduce/reductions.ts";
import { removeVolume } from "../volumes/remove-volume.ts";
import { resizeVolume } from "../volumes/resize-volume.ts";
import { createSnapshot } from "../volumes/snapshots.ts";
import { classOf, freshStateOf, isUnusable, stateOf, type VolumeHost } from "../volumes/volume-host.ts";
import { createNewestStreams, type LvmdMethod, readableRequests } from "./methods.ts";

export function createLVService(method: LvmdMethod, host: VolumeHost, tokens: ReduceTokens): GrpcService {
  const implementation: LVServiceServer = {
    createLv: method("CreateLV", async ({ name, tags, deviceClass, lvcreateOptionClass, sizeBytes }) => {
      const made = await createVolume(host, { name, tags, deviceClass, optionClass: lvcreateOptionClass, sizeBytes });
      return { volume: shortForm(made) };
    }),
    removeLv: method("RemoveLV", async ({ name, deviceClass }) => {
      await removeVolume(host, deviceClass, name);
      return {};
    }),
    resizeLv: method("ResizeLV", async ({ name, deviceClass, sizeBytes }) => {
      return { sizeBytes: await resizeVolume(host, tokens, deviceClass, name, sizeBytes) };
    }),
    createLvSnapshot: method(
      "CreateLVSnapshot",
      async ({ name, tags, deviceClass, sourceVolume, accessType, sizeBytes }) => {
        const order = { name, tags, deviceClass, source: sourceVolume, access: accessType, sizeBytes };
        return { snapshot: shortForm(await createSnapshot(host, order)) };
      },
    ),
  };
  return { definition: readableRequests(LVServiceService), implementation };
}

/** What TopoLVM answers to the maker of a volume: no path, no attributes, no tags. */
function shortForm({ name, sizeBytes, device }: MadeVolume): LogicalVolume {
  return {
    name,
    sizeBytes,
    devMajor: device?.major ?? 0,
    devMinor: device?.minor ?? 0,
    tags: [],
    path: "",
    attr: "",
  };
}

/** A list as bytes: lists are asked for often and change seldom. */
type EncodedList = Buffer;

export function createVGService(method: LvmdMethod, host: VolumeHost): GrpcService & { changed(): void } {
  const lists = createListCache();
  const streams = createNewestStreams(
    () => (host.reports.latest() === undefined ? undefined : watchResponse(host)),
    isDeepStrictEqual,
  );
  const implementation: GrpcService["implementation"] = {
    getLvList: method<GetLVListRequest, EncodedList>("GetLVList", async (request) => {
      const deviceClass = classOf(host, request.deviceClass);
      const state = await wholeStateOf(host, deviceClass);
      return lists.encoded(host.reports.latest(), state);
    }),
    getFreeBytes: method<GetFreeBytesRequest, GetFreeBytesResponse>("GetFreeBytes", async (request) => {
      const deviceClass = classOf(host, request.deviceClass);
      return { freeBytes: (await stateOf(host, deviceClass)).freeBytes };
    }),
    watch: streams.open,
  };
  const { getLvList, ...others } = readableRequests(VGServiceService);
  return {
    definition: { ...others, getLvList: { ...getLvList, responseSerialize: (bytes: EncodedList) => bytes } },
    implementation,
    changed: streams.changed,
  };
}

/** Of a volume that lvmd has just made, only a report has everything. */
async function wholeStateOf(host: VolumeHost, deviceClass: DeviceClass): Promise<ClassState> {
  const state = await stateOf(host, deviceClass);
  if (volumesOf(state).every(({ attr }) => attr !== "")) return state;
  return freshStateOf(host, deviceClass);
}

function createListCache(): { encoded(report: Report | undefined, state: ClassState): EncodedList } {
  let of: Report | undefined;
  let encoded = new Map<string, EncodedList>();
  return {
    encoded: (report, state) => {
      if (report !== of) {
        of = report;
        encoded = new Map();
      }
      const key = state.deviceClass.name;
      const present = encoded.get(key);
      if (present !== undefined) return present;
      const volumes = volumesOf(state).map(wireVolume);
      const bytes = Buffer.from(GetLVListResponse.encode({ volumes }).finish());
      encoded.set(key, bytes);
      return bytes;
    },
  };
}

function wireVolume({ name, device, tags, sizeBytes, path, attr }: ReportedVolume): LogicalVolume {
  return {
    name,
    sizeBytes,
    devMajor: device?.major ?? 0,
    devMinor: device?.minor ?? 0,
    tags: [...tags],
    path,
    attr,
  };
}

function watchResponse({ settings, reports }: VolumeHost): WatchResponse {
  const states = settings()
    .deviceClasses.map((deviceClass) => classState(reports.latest(), deviceClass))
    .filter((state) => !isUnusable(state)) as ClassState[];
  return {
    freeBytes: states.find(({ deviceClass }) => deviceClass.isDefault)?.freeBytes ?? 0,
    items: states.map(watchItem),
  };
}

/** Of a thin class the item's own bytes are its volume group's, as with TopoLVM. */
function watchItem({ deviceClass, group, freeBytes, thin }: ClassState): WatchItem {
  if (thin === undefined)
    return { deviceClass: deviceClass.name, freeBytes, sizeBytes: group.sizeBytes, thinPool: undefined };
  const { pool, settings } = thin;
  return {
    deviceClass: deviceClass.name,
    freeBytes: group.freeBytes,
    sizeBytes: group.sizeBytes,
    thinPool: {
      dataPercent: pool.dataPercent,
      metadataPercent: pool.metadataPercent,
      overprovisionBytes: Math.max(0, promisableBytes(group, pool, settings) - deviceClass.spareBytes),
      sizeBytes: pool.sizeBytes,
    },
  };
}
