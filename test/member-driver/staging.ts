// NodeStageVolume and NodeUnstageVolume: a volume that is attached to this node becomes a loop device and, unless it is a block
// volume, a mounted filesystem. The claim is what keeps a second node from doing the same.
import { invalidArgument, Refusal } from "../../src/contracts/csi/refusal.ts";
import type {
  NodeStageVolumeRequest,
  NodeStageVolumeResponse,
  NodeUnstageVolumeRequest,
  NodeUnstageVolumeResponse,
} from "../../src/contracts/gen/csi/v1/csi.ts";
import { runProgram } from "../cluster/run-program.ts";
import { type Access, accessOf } from "./access.ts";
import { ATTACHMENT_KEY } from "./attaching.ts";
import { mountFilesystem, mountsOfDevice, unmountAt } from "./device-mounts.ts";
import { attachLoop, detachLoop, loopOf } from "./loop.ts";
import type { Switches } from "./switches.ts";
import type { Claim, VolumeFiles } from "./volume-files.ts";
import { noVolume } from "./volumes.ts";

export async function stageVolume(
  files: VolumeFiles,
  node: string,
  request: NodeStageVolumeRequest,
  switches: Switches,
): Promise<NodeStageVolumeResponse | Refusal> {
  const { volumeId, stagingTargetPath: stagingPath, publishContext } = request;
  if (volumeId === "" || stagingPath === "") return invalidArgument("the volume id or the staging path is missing");
  const access = accessOf(request.volumeCapability, switches);
  if (access instanceof Refusal) return access;
  if (files.volume(volumeId) === undefined) return noVolume(volumeId);
  const { block, fsType } = access;
  const wanted: Claim = { node, stagingPath, block, fsType };
  const before = files.claimOf(volumeId);
  const refused = claimRefusal(files.claim(volumeId, wanted), wanted, volumeId);
  if (refused !== undefined) return refused;
  // Looked at under the claim: from here on, who detaches it sees that it is staged.
  const attachment = files.attachment(volumeId);
  if (attachment?.node !== node || publishContext[ATTACHMENT_KEY] !== attachment.token) {
    if (before === undefined) files.unclaim(volumeId);
    return new Refusal(
      "FAILED_PRECONDITION",
      `volume ${volumeId} is attached to ${attachment?.node ?? "no node"}; ${node} stages it only with that attachment's publish context`,
    );
  }
  if (files.sizeBytes(volumeId) === undefined)
    return new Refusal("INTERNAL", `the device of volume ${volumeId} is gone`);
  const device = await attachLoop(volumeId, files.imagePath(volumeId));
  if (!block) await mountOnce(device, stagingPath, access);
  return {};
}

function claimRefusal(held: Claim, wanted: Claim, volumeId: string): Refusal | undefined {
  if (held.node !== wanted.node)
    return new Refusal("FAILED_PRECONDITION", `volume ${volumeId} is staged on ${held.node}: never on two nodes`);
  if (held.stagingPath !== wanted.stagingPath)
    return new Refusal("FAILED_PRECONDITION", `volume ${volumeId} is staged at ${held.stagingPath} already`);
  if (held.block !== wanted.block || held.fsType !== wanted.fsType)
    return new Refusal("ALREADY_EXISTS", `volume ${volumeId} is staged as ${held.block ? "a device" : held.fsType}`);
  return undefined;
}

async function mountOnce(device: string, stagingPath: string, { fsType, mountFlags }: Access): Promise<void> {
  if (mountsOfDevice(device).some(({ path }) => path === stagingPath)) return;
  const signatures = await runProgram("wipefs", ["--parsable", "--noheadings", "--output", "TYPE", device]);
  if (signatures.trim() === "") await runProgram(`mkfs.${fsType}`, [device]);
  await mountFilesystem(device, stagingPath, fsType, mountFlags);
}

/** What another node has staged stays as it is. */
export async function unstageVolume(
  files: VolumeFiles,
  node: string,
  { volumeId, stagingTargetPath }: NodeUnstageVolumeRequest,
): Promise<NodeUnstageVolumeResponse | Refusal> {
  if (volumeId === "" || stagingTargetPath === "")
    return invalidArgument("the volume id or the staging path is missing");
  if (files.volume(volumeId) === undefined) return noVolume(volumeId);
  const claim = files.claimOf(volumeId);
  if (claim?.node !== node) return {};
  const device = loopOf(volumeId);
  const published = device === undefined ? [] : mountsOfDevice(device).filter(({ path }) => path !== claim.stagingPath);
  if (published.length > 0)
    return new Refusal("FAILED_PRECONDITION", `volume ${volumeId} is still published at ${published[0]?.path}`);
  if (!claim.block) await unmountAt(claim.stagingPath);
  if (!(await detachLoop(volumeId, { withUpper: false })))
    return new Refusal("FAILED_PRECONDITION", `${device} of volume ${volumeId} is in use: unmount or close it first`);
  files.unclaim(volumeId);
  return {};
}
