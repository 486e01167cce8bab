// What a stack needs for the backend `lvm`: lvmd as a process of the bundle beside the others, and a volume group. On a machine without
// device-mapper that is one on loop devices; where the machine has it, one that the test has made.
import { basename, join } from "node:path";
import type { KubeClient } from "../../src/kube/client.ts";
import { STORAGE_CLASSES } from "../../src/kube/resources.ts";
import { runProgram } from "../cluster/run-program.ts";
import { createLvmOnLoop, type LvmOnLoop } from "../lvm-on-loop/lvm-on-loop.ts";
import { createLvmdProcess, type DeviceClassSettings, type LvmdProcess } from "./lvmd-process.ts";

export const LVM_CLASS_NAME = "tidemark-lvm";

export interface LvmOfStack {
  readonly group: string;
  readonly ground: Pick<LvmOnLoop, "lvm" | "remove">;
  readonly lvmd: LvmdProcess;
}

export type LvmSettings = LoopGround | OwnGround;

/** Made for the stack, and removed with it. */
interface LoopGround {
  readonly groupBytes: number;
}

/** There already, on the machine's own LVM; it stays. */
interface OwnGround {
  readonly group: string;
  readonly deviceClasses: readonly DeviceClassSettings[];
}

export function createLvmOfStack(directory: string, settings: LvmSettings): Promise<LvmOfStack> {
  return "groupBytes" in settings ? onLoop(directory, settings) : onOwn(directory, settings);
}

async function onOwn(directory: string, { group, deviceClasses }: OwnGround): Promise<LvmOfStack> {
  const [command, backupDirectory] = ["/sbin/lvm", "/etc/lvm/backup"];
  return {
    group,
    ground: { lvm: (...words) => runProgram(command, words), remove: async () => undefined },
    lvmd: await createLvmdProcess(directory, { group, prefix: [command], backupDirectory, deviceClasses }),
  };
}

/** Below the stack's directory; a group of this machine's own name, since stacks run beside each other. */
async function onLoop(directory: string, { groupBytes }: LoopGround): Promise<LvmOfStack> {
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
