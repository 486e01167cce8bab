// What a stack needs for the backend `lvm` on a machine without device-mapper: a volume group on loop devices, and lvmd as a process
// of the bundle beside the others.
import { writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { credentials } from "@grpc/grpc-js";
import { stringify } from "yaml";
import { freePort } from "../../src/demo/free-port.ts";
import { HealthClient, HealthCheckResponse_ServingStatus as Serving } from "../../src/gen/grpc/health/v1/health.ts";
import type { KubeClient } from "../../src/kube/client.ts";
import { STORAGE_CLASSES } from "../../src/kube/resources.ts";
import { createLvmOnLoop, type LvmOnLoop } from "../lvm-on-loop/lvm-on-loop.ts";
import { type BundleProcess, createBundleProcess } from "./bundle-process.ts";
import { waitFor } from "./wait-for.ts";

export const LVM_CLASS_NAME = "tidemark-lvm";

export interface LvmOfStack {
  readonly group: string;
  readonly ground: LvmOnLoop;
  readonly socket: string;
  readonly lvmd: BundleProcess;
  /** Starts lvmd and waits until it serves. */
  start(): Promise<void>;
  /** When everything of the stack has ended and is unmounted. */
  remove(): Promise<void>;
}

export interface LvmSettings {
  readonly groupBytes: number;
}

/** Below the stack's directory; a group of this machine's own name, since stacks run beside each other. */
export async function createLvmOfStack(directory: string, { groupBytes }: LvmSettings): Promise<LvmOfStack> {
  const ground = await createLvmOnLoop(join(directory, "lvm"));
  const group = `tidemark-${basename(directory)}`;
  await ground.addGroup(group, groupBytes);
  const [socket, settings] = [join(directory, "lvmd.sock"), join(directory, "lvmd.yaml")];
  const deviceClasses = [{ name: "ssd", "volume-group": group, default: true, "spare-gb": 0 }];
  writeFileSync(
    settings,
    stringify({ "socket-name": socket, "device-classes": deviceClasses, "lvm-command-prefix": [ground.command] }),
  );
  const lvmd = createBundleProcess(directory, "lvmd", [
    ...["lvmd", "--config", settings, "--state-directory", join(directory, "lvmd")],
    ...["--lvm-backup-directory", join(ground.directory, "backup")],
    ...["--http-host", "127.0.0.1", "--http-port", String(await freePort())],
  ]);
  return {
    group,
    ground,
    socket,
    lvmd,
    start: async () => {
      lvmd.start();
      await untilServing(socket, lvmd);
    },
    remove: () => ground.remove(),
  };
}

async function untilServing(socket: string, lvmd: BundleProcess): Promise<void> {
  const client = new HealthClient(`unix://${socket}`, credentials.createInsecure());
  const ask = (): Promise<true | undefined> =>
    new Promise((resolve) => {
      client.check({ service: "" }, (error, answer) => {
        resolve(error === null && answer.status === Serving.SERVING ? true : undefined);
      });
    });
  await waitFor("lvmd to serve", ask, { otherwise: () => lvmd.log() }).finally(() => client.close());
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
