// Volumes made, enlarged and deleted, within the capacity that the switches give. All of it happens in one turn of the event
// loop, so that two calls never give out the same bytes.
import { randomUUID } from "node:crypto";
import { invalidArgument, Refusal } from "../../src/contracts/csi/refusal.ts";
import type {
  CapacityRange,
  ControllerExpandVolumeRequest,
  ControllerExpandVolumeResponse,
  ControllerGetVolumeResponse_VolumeStatus,
  CreateVolumeRequest,
  CreateVolumeResponse,
  DeleteVolumeResponse,
  Volume,
} from "../../src/contracts/gen/csi/v1/csi.ts";
import { GIB } from "../../src/contracts/quantities/quantity.ts";
import { accessOf } from "./access.ts";
import { GROWTH_MANNERS, type GrowthManner, grownAtOnce } from "./growth-manner.ts";
import type { Switches } from "./switches.ts";
import { chosenNode, topologyOf } from "./topology.ts";
import type { VolumeFiles, VolumeRecord } from "./volume-files.ts";

const DEFAULT_BYTES = GIB;
const GRAIN_BYTES = 4096;
/** What the files below can hold. */
const VOLUME_LIMIT_BYTES = 15 * 1024 * GIB;
/** A StorageClass' parameter: how devices take an expansion. */
export const GROWTH_PARAMETER = "growth";
/** csi-provisioner's own, which say for whom a volume is. */
const KNOWN_PARAMETERS = /^csi\.storage\.k8s\.io\//;

export function createVolume(
  files: VolumeFiles,
  request: CreateVolumeRequest,
  switches: Switches,
): CreateVolumeResponse | Refusal {
  const { name, volumeCapabilities, volumeContentSource, parameters } = request;
  if (name === "") return invalidArgument("the name is missing");
  if (volumeCapabilities.length === 0) return invalidArgument("the volume capabilities are missing");
  if (volumeContentSource !== undefined)
    return invalidArgument("volumes begin empty: there are no snapshots and clones");
  const unknown = Object.keys(parameters).find(
    (parameter) => parameter !== GROWTH_PARAMETER && !KNOWN_PARAMETERS.test(parameter),
  );
  if (unknown !== undefined) return invalidArgument(`there is no StorageClass parameter "${unknown}"`);
  const growth = parameters[GROWTH_PARAMETER];
  if (growth !== undefined && mannerOf(growth) === undefined)
    return invalidArgument(`parameter growth: "${growth}" is none of ${GROWTH_MANNERS.join(", ")}`);
  const refused = volumeCapabilities.map((one) => accessOf(one, switches)).find((one) => one instanceof Refusal);
  if (refused !== undefined) return refused;
  const sizeBytes = sizeIn(request.capacityRange);
  if (sizeBytes instanceof Refusal) return sizeBytes;
  const existing = files.volumes().find((volume) => volume.name === name);
  const made = existing ?? makeVolume(files, request, sizeBytes, switches);
  if (made instanceof Refusal) return made;
  const volume = volumeOf(files, made);
  const { limitBytes = 0, requiredBytes = 0 } = request.capacityRange ?? {};
  if (volume.capacityBytes < requiredBytes || (limitBytes > 0 && volume.capacityBytes > limitBytes))
    return new Refusal("ALREADY_EXISTS", `volume "${name}" exists with ${volume.capacityBytes} bytes`);
  return { volume };
}

function makeVolume(
  files: VolumeFiles,
  { name, accessibilityRequirements, parameters }: CreateVolumeRequest,
  sizeBytes: number,
  switches: Switches,
): VolumeRecord | Refusal {
  const short = capacityRefusal(files, switches, sizeBytes);
  if (short !== undefined) return short;
  const node = chosenNode(files.nodes(), accessibilityRequirements);
  if (node === undefined)
    return new Refusal("RESOURCE_EXHAUSTED", `no node of the driver has the topology that volume "${name}" needs`);
  const growth = mannerOf(parameters[GROWTH_PARAMETER]);
  const record = { volumeId: `vol-${randomUUID()}`, name, segments: node.segments, ...(growth && { growth }) };
  files.add(record, sizeBytes);
  return record;
}

/** Of one that is attached or staged nothing is deleted. */
export function deleteVolume(files: VolumeFiles, volumeId: string): DeleteVolumeResponse | Refusal {
  if (volumeId === "") return invalidArgument("the volume id is missing");
  if (files.volume(volumeId) === undefined) return {};
  const node = files.attachment(volumeId)?.node ?? files.claimOf(volumeId)?.node;
  if (node !== undefined) return new Refusal("FAILED_PRECONDITION", `volume ${volumeId} is in use on ${node}`);
  files.remove(volumeId);
  return {};
}

/** The node's part, the device and the filesystem, is NodeExpandVolume's. */
export function expandVolume(
  files: VolumeFiles,
  { volumeId, capacityRange }: ControllerExpandVolumeRequest,
  switches: Switches,
): ControllerExpandVolumeResponse | Refusal {
  if (volumeId === "") return invalidArgument("the volume id is missing");
  if (capacityRange === undefined) return invalidArgument("the capacity range is missing");
  const volume = files.volume(volumeId);
  if (volume === undefined) return noVolume(volumeId);
  const [wantedBytes, presentBytes] = [sizeIn(capacityRange), files.sizeBytes(volumeId)];
  if (wantedBytes instanceof Refusal) return wantedBytes;
  if (presentBytes === undefined) return new Refusal("INTERNAL", `the device of volume ${volumeId} is gone`);
  if (capacityRange.limitBytes > 0 && presentBytes > capacityRange.limitBytes)
    return new Refusal("OUT_OF_RANGE", `volume ${volumeId} has ${presentBytes} bytes already and never shrinks`);
  if (wantedBytes > presentBytes) {
    const short = capacityRefusal(files, switches, wantedBytes - presentBytes);
    if (short !== undefined) return short;
    const manner = volume.growth ?? "Promptly";
    files.grow(volumeId, grownAtOnce(manner, presentBytes, wantedBytes));
    if (manner === "Slowly") growLate(files, volumeId, wantedBytes, switches.growthDelayMs);
  }
  return { capacityBytes: Math.max(wantedBytes, presentBytes), nodeExpansionRequired: true };
}

/** What has been asked for may be larger by then, or the volume gone. */
function growLate(files: VolumeFiles, volumeId: string, sizeBytes: number, delayMs: number): void {
  const late = setTimeout(() => {
    const presentBytes = files.volume(volumeId) && files.sizeBytes(volumeId);
    if (presentBytes !== undefined && presentBytes < sizeBytes) files.grow(volumeId, sizeBytes);
  }, delayMs);
  late.unref();
}

function mannerOf(growth: string | undefined): GrowthManner | undefined {
  return GROWTH_MANNERS.find((manner) => manner === growth);
}

export function availableBytes(files: VolumeFiles, { capacityBytes }: Switches): number {
  const sizes = files.volumes().map(({ volumeId }) => files.sizeBytes(volumeId) ?? 0);
  return Math.max(
    0,
    sizes.reduce((left, size) => left - size, capacityBytes),
  );
}

export function volumeOf(files: VolumeFiles, { volumeId, segments }: VolumeRecord): Volume {
  return {
    volumeId,
    capacityBytes: files.sizeBytes(volumeId) ?? 0,
    volumeContext: {},
    contentSource: undefined,
    accessibleTopology: topologyOf(segments),
  };
}

export function statusOf(files: VolumeFiles, { volumeId }: VolumeRecord): ControllerGetVolumeResponse_VolumeStatus {
  const node = files.attachment(volumeId)?.node;
  return { publishedNodeIds: node === undefined ? [] : [node], volumeCondition: conditionOf(files, volumeId) };
}

export function conditionOf(files: VolumeFiles, volumeId: string): { abnormal: boolean; message: string } {
  const abnormal = files.sizeBytes(volumeId) === undefined;
  return { abnormal, message: abnormal ? "the device is gone" : "the device is there" };
}

export function noVolume(volumeId: string): Refusal {
  return new Refusal("NOT_FOUND", `there is no volume "${volumeId}"`);
}

function capacityRefusal(files: VolumeFiles, switches: Switches, moreBytes: number): Refusal | undefined {
  const leftBytes = availableBytes(files, switches);
  if (moreBytes <= leftBytes) return undefined;
  return new Refusal("RESOURCE_EXHAUSTED", `${moreBytes} bytes are wanted, and ${leftBytes} are left`);
}

function sizeIn(range: CapacityRange | undefined): number | Refusal {
  const { requiredBytes = 0, limitBytes = 0 } = range ?? {};
  const least =
    requiredBytes > 0 ? requiredBytes : Math.min(DEFAULT_BYTES, limitBytes > 0 ? limitBytes : DEFAULT_BYTES);
  const sizeBytes = Math.ceil(least / GRAIN_BYTES) * GRAIN_BYTES;
  if (sizeBytes > VOLUME_LIMIT_BYTES || (limitBytes > 0 && sizeBytes > limitBytes))
    return new Refusal(
      "OUT_OF_RANGE",
      `${requiredBytes} to ${limitBytes} bytes: sizes are multiples of ${GRAIN_BYTES} up to ${VOLUME_LIMIT_BYTES}`,
    );
  return sizeBytes;
}
