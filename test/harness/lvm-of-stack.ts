// What a stack needs for the backend `lvm` on a machine without device-mapper: a volume group on loop devices, and lvmd as a process
// of the bundle beside the others.
import { basename, join } from "node:path";
import type { KubeClient } from "../../src/kube/client.ts";
import { STORAGE_CLASSES } from "../../src/kube/resources.ts";
import { createLvmOnLoop, type LvmOnLoop } from "../lvm-on-loop/lvm-on-loop.ts";
import { createLvmdProcess, type LvmdProcess } from "./lvmd-process.ts";

export const LVM_CLASS_NAME = "tidemark-lvm";

export interface LvmOfStack {
  readonly group: string;
  readonly ground: LvmOnLoop;
  readonly lvmd: LvmdProcess;
}

export interface LvmSettings {
  readonly groupBytes: number;
}

/** Below the stack's directory; a group of this machine's own name, since stacks run beside each other. */
export async function createLvmOfStack(directory: string, { groupBytes }: LvmSettings): Promise<LvmOfStack> {
  const ground = await createLvmOnLoop(join(directory, "lvm"));
  const group = `tidemark-${basename(directory)}`;
  await ground.addGroup(group, groupBytes);
  const backupDirectory = join(ground.directory, "backup");
  return {
    group,
    ground,
    lvmd: await createLvmdProcess(directory, { group, prefix: [ground.command], backupDirectory }),
  };
}

export async function applyLvmClass(client: KubeClient, parameters: Readonly<Record<string, string>>): Promise<void> {
  await client.create("test/lvm-class", STORAGE_CLASSES, {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name: LVM_CLASS_NAME },
    provisioner: "local.tidemark.dev",
    parameters: { backend: "lvm", ...parameters },
    reclaimPolicy: "Delete",
    allowVolumeExpansion: true,
    volumeBindingMode: "Immediate",
  });
}
