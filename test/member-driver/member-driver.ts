// A small CSI driver for tests, whose volumes are sparse files in a directory that all nodes share, shown as loop devices. It is
// honest: what it says it has done the kernel or a file shows, and it refuses what a real driver has to. Only wiring.

import { serveKubeletRegistration } from "../../src/agent/csi/kubelet-registration.ts";
import { createKeyedQueue } from "../../src/platform/process/async/keyed-queue.ts";
import { serveOnSocket } from "../../src/platform/process/grpc.ts";
import type { Logger } from "../../src/platform/process/log.ts";
import { createController } from "./controller.ts";
import { createFaults } from "./faults.ts";
import { createIdentity } from "./identity.ts";
import { createNode } from "./node.ts";
import type { DriverParts } from "./rpc-method.ts";
import { readSwitches } from "./switches.ts";
import { nodeSegments } from "./topology.ts";
import { createVolumeFiles } from "./volume-files.ts";

/** For one volume, under way and waiting. */
const CALLS_LIMIT = 8;

export interface MemberDriverOptions {
  readonly driverName: string;
  /** Of the volumes, the switches and the log of RPCs; the same for all parts on all nodes. */
  readonly directory: string;
  readonly socket: string;
  readonly controller: boolean;
  /** The node whose node services are served. */
  readonly node: string | undefined;
  /** Kubelet's; absent: no kubelet hears of the driver. */
  readonly registrationDirectory?: string | undefined;
}

export async function startMemberDriver(
  options: MemberDriverOptions,
  log: Logger,
): Promise<{ close(): Promise<void> }> {
  const { driverName, directory, socket, controller, node, registrationDirectory } = options;
  const files = createVolumeFiles(directory);
  const parts: DriverParts = {
    ...{ driverName, directory, files },
    part: node ?? "controller",
    faults: createFaults(),
    queues: createKeyedQueue(CALLS_LIMIT),
  };
  if (node !== undefined)
    files.addNode({ name: node, segments: nodeSegments(driverName, readSwitches(directory), node) });
  const server = await serveOnSocket(socket, [
    createIdentity(parts),
    ...(controller ? [createController(parts)] : []),
    ...(node === undefined ? [] : [createNode(parts, node)]),
  ]);
  const registration =
    registrationDirectory === undefined
      ? undefined
      : await serveKubeletRegistration({ directory: registrationDirectory, driverName, csiSocket: socket, log });
  return {
    close: async () => {
      await registration?.close();
      await server.close();
    },
  };
}
