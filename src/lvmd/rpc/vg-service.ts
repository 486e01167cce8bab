// proto.VGService, TopoLVM's: what there is, answered from the last report.
import { isDeepStrictEqual } from "node:util";
import { Refusal } from "../../csi/refusal.ts";
import {
  type GetFreeBytesRequest,
  type GetFreeBytesResponse,
  type GetLVListRequest,
  GetLVListResponse,
  type LogicalVolume,
  VGServiceService,
  type WatchItem,
  type WatchResponse,
} from "../../gen/topolvm/lvmd.ts";
import type { GrpcService } from "../../process/grpc.ts";
import { type ClassState, classState, volumesOf } from "../classes/class-state.ts";
import { promisableBytes } from "../classes/room.ts";
import type { Report, ReportedVolume } from "../lvm/report.ts";
import type { DeviceClass } from "../settings/settings.ts";
import { classOf, freshStateOf, isUnusable, stateOf, type VolumeHost } from "../volumes/volume-host.ts";
import type { LvmdMethod } from "./lvmd-method.ts";
import { createNewestStreams } from "./newest-stream.ts";
import { readableRequests } from "./readable-requests.ts";

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
      if (deviceClass instanceof Refusal) return deviceClass;
      const state = await wholeStateOf(host, deviceClass);
      return state instanceof Refusal ? state : lists.encoded(host.reports.latest(), state);
    }),
    getFreeBytes: method<GetFreeBytesRequest, GetFreeBytesResponse>("GetFreeBytes", async (request) => {
      const deviceClass = classOf(host, request.deviceClass);
      if (deviceClass instanceof Refusal) return deviceClass;
      const state = await stateOf(host, deviceClass);
      return state instanceof Refusal ? state : { freeBytes: state.freeBytes };
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

/** Of a volume that lvmd has just made, only a report tells everything. */
async function wholeStateOf(host: VolumeHost, deviceClass: DeviceClass): Promise<ClassState | Refusal> {
  const state = await stateOf(host, deviceClass);
  if (state instanceof Refusal || volumesOf(state).every(({ attr }) => attr !== "")) return state;
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
