// One volume of a driver through its life, as Kubernetes leads it: made, attached, staged and published on a node, and back.
import { join } from "node:path";
import { CreateVolumeRequest, type VolumeCapability } from "../../src/contracts/gen/csi/v1/csi.ts";
import { MIB } from "../../src/contracts/quantities/quantity.ts";
import { call, FILESYSTEM, type TestNode, type TwoNodeDriver } from "./two-node-driver.ts";

export interface VolumeLife {
  readonly volumeId: string;
  attach(node: TestNode): Promise<Record<string, string>>;
  detach(node: TestNode): Promise<void>;
  stage(node: TestNode, publishContext: Record<string, string>): Promise<void>;
  unstage(node: TestNode): Promise<void>;
  publish(node: TestNode): Promise<void>;
  unpublish(node: TestNode): Promise<void>;
  /** What publish made: the volume as a pod sees it. */
  path(node: TestNode): string;
  /** Controller and node; the size that the node tells. */
  expand(node: TestNode, sizeBytes: number): Promise<number>;
  /** Attach, stage, publish. */
  use(node: TestNode): Promise<void>;
  /** Unpublish, unstage, detach. */
  leave(node: TestNode): Promise<void>;
  delete(): Promise<void>;
}

/** Enough for a btrfs. */
export const VOLUME_BYTES = 128 * MIB;

/** 128 MiB, unless the request says otherwise. */
export async function createVolume(
  { controller }: TwoNodeDriver,
  name: string,
  fields: Partial<CreateVolumeRequest> = {},
): Promise<string> {
  const request = CreateVolumeRequest.fromPartial({
    name,
    capacityRange: { requiredBytes: VOLUME_BYTES },
    volumeCapabilities: [FILESYSTEM],
    ...fields,
  });
  const { volume } = await call(controller.createVolume.bind(controller), request);
  return volume?.volumeId ?? "";
}

export function volumeLife(driver: TwoNodeDriver, volumeId: string, volumeCapability: VolumeCapability): VolumeLife {
  const { controller, directory } = driver;
  const stagingTargetPath = (node: TestNode): string => join(directory, "kubelet", node, volumeId, "staged");
  const targetPath = (node: TestNode): string => join(directory, "kubelet", node, volumeId, "pod");
  const always = { volumeId, volumeCapability, readonly: false, secrets: {}, volumeContext: {} };
  const life: VolumeLife = {
    volumeId,
    path: targetPath,
    attach: async (nodeId) => {
      const request = { ...always, nodeId };
      return (await call(controller.controllerPublishVolume.bind(controller), request)).publishContext;
    },
    detach: async (nodeId) => {
      await call(controller.controllerUnpublishVolume.bind(controller), { volumeId, nodeId, secrets: {} });
    },
    stage: async (node, publishContext) => {
      const request = { ...always, publishContext, stagingTargetPath: stagingTargetPath(node) };
      await call(driver.nodes[node].nodeStageVolume.bind(driver.nodes[node]), request);
    },
    unstage: async (node) => {
      const request = { volumeId, stagingTargetPath: stagingTargetPath(node) };
      await call(driver.nodes[node].nodeUnstageVolume.bind(driver.nodes[node]), request);
    },
    publish: async (node) => {
      const paths = { stagingTargetPath: stagingTargetPath(node), targetPath: targetPath(node) };
      const request = { ...always, ...paths, publishContext: {} };
      await call(driver.nodes[node].nodePublishVolume.bind(driver.nodes[node]), request);
    },
    unpublish: async (node) => {
      const request = { volumeId, targetPath: targetPath(node) };
      await call(driver.nodes[node].nodeUnpublishVolume.bind(driver.nodes[node]), request);
    },
    expand: async (node, requiredBytes) => {
      const request = { ...always, capacityRange: { requiredBytes, limitBytes: 0 } };
      await call(controller.controllerExpandVolume.bind(controller), request);
      const onNode = { ...request, volumePath: targetPath(node), stagingTargetPath: stagingTargetPath(node) };
      return (await call(driver.nodes[node].nodeExpandVolume.bind(driver.nodes[node]), onNode)).capacityBytes;
    },
    use: async (node) => {
      await life.stage(node, await life.attach(node));
      await life.publish(node);
    },
    leave: async (node) => {
      await life.unpublish(node);
      await life.unstage(node);
      await life.detach(node);
    },
    delete: async () => {
      await call(controller.deleteVolume.bind(controller), { volumeId, secrets: {} });
    },
  };
  return life;
}
