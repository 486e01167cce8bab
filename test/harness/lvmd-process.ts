// lvmd as a process of the bundle, with one device class on one volume group, unless it is told others.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { credentials } from "@grpc/grpc-js";
import { stringify } from "yaml";
import { freePort } from "../../demo/show/run/free-port.ts";
import {
  HealthClient,
  HealthCheckResponse_ServingStatus as Serving,
} from "../../src/contracts/gen/grpc/health/v1/health.ts";
import { type BundleProcess, createBundleProcess, type Environment } from "./bundle-process.ts";
import { waitFor } from "./wait-for.ts";

export interface LvmdProcess {
  readonly socket: string;
  readonly process: BundleProcess;
  /** Starts it, with the environment of its last start when none is given, and waits until it serves. */
  start(environment?: Environment): Promise<void>;
}

export interface LvmdGround {
  readonly group: string;
  /** lvm-command-prefix. */
  readonly prefix: readonly string[];
  /** Where LVM writes a group's metadata after each change. */
  readonly backupDirectory: string;
  /** As lvmd.yaml has them. Absent: one thick class, ssd, on the group. */
  readonly deviceClasses?: readonly object[];
}

/** Everything of it is in the directory, which is there. */
export async function createLvmdProcess(directory: string, ground: LvmdGround): Promise<LvmdProcess> {
  const [socket, settings] = [join(directory, "lvmd.sock"), join(directory, "lvmd.yaml")];
  const ssd = { name: "ssd", "volume-group": ground.group, default: true, "spare-gb": 0 };
  const { deviceClasses = [ssd] } = ground;
  const content = { "socket-name": socket, "device-classes": deviceClasses, "lvm-command-prefix": ground.prefix };
  writeFileSync(settings, stringify(content));
  const lvmd = createBundleProcess(directory, "lvmd", [
    ...["lvmd", "--config", settings, "--state-directory", join(directory, "lvmd")],
    ...["--lvm-backup-directory", ground.backupDirectory],
    ...["--http-host", "127.0.0.1", "--http-port", String(await freePort())],
  ]);
  return {
    socket,
    process: lvmd,
    start: async (environment) => {
      lvmd.start(environment);
      await untilServing(socket, lvmd);
    },
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
