// What a stack needs for the backend `lvm`: lvmd as a process of the bundle beside the others, and a volume group: on loop devices where the
// machine has no device-mapper, or groups that are there already, with thin pools.
import { basename, join } from "node:path";
import { STORAGE_CLASSES } from "../../src/contracts/kubernetes/resources.ts";
import type { KubeClient } from "../../src/platform/kube/client/client.ts";
import { runProgram } from "../cluster/run-program.ts";
import { createLvmOnLoop, type LvmOnLoop } from "../lvm-on-loop/lvm-on-loop.ts";
import { createLvmdProcess, type LvmdProcess } from "./lvmd-process.ts";

export const LVM_CLASS_NAME = "tidemark-lvm";

export interface LvmOfStack {
  readonly group: string;
  readonly ground: Pick<LvmOnLoop, "lvm" | "remove">;
  readonly lvmd: LvmdProcess;
}

export type LvmSettings = LvmOnLoopSettings | RealLvmSettings;

interface LvmOnLoopSettings {
  readonly groupBytes: number;
}

/** On LVM's own device-mapper; its groups and pools are made before, and are their maker's to remove. */
interface RealLvmSettings {
  /** That of the default class. */
  readonly group: string;
  /** As lvmd.yaml has them. */
  readonly deviceClasses: readonly object[];
}

/** Below the stack's directory; a group of this machine's own name, since stacks run beside each other. */
export async function createLvmOfStack(directory: string, settings: LvmSettings): Promise<LvmOfStack> {
  return "groupBytes" in settings ? createOnLoop(directory, settings) : createOnDeviceMapper(directory, settings);
}

async function createOnLoop(directory: string, { groupBytes }: LvmOnLoopSettings): Promise<LvmOfStack> {
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

async function createOnDeviceMapper(directory: string, { group, deviceClasses }: RealLvmSettings): Promise<LvmOfStack> {
  const lvm = "/sbin/lvm";
  const ground = { group, deviceClasses, prefix: [lvm], backupDirectory: "/etc/lvm/backup" };
  return {
    group,
    ground: { lvm: (...words) => runProgram(lvm, words), remove: async () => undefined },
    lvmd: await createLvmdProcess(directory, ground),
  };
}

export async function applyLvmClass(
  client: KubeClient,
  parameters: Readonly<Record<string, string>>,
  name: string = LVM_CLASS_NAME,
): Promise<void> {
  await client.create("test/lvm-class", STORAGE_CLASSES, {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name },
    provisioner: "local.tidemark.dev",
    parameters: { backend: "lvm", ...parameters },
    reclaimPolicy: "Delete",
    allowVolumeExpansion: true,
    volumeBindingMode: "Immediate",
  });
}
