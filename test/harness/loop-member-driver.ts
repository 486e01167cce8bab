// A CSI driver's node plugin whose volumes are files: staged as a loop device, published as a block file, found by its
// registration socket as kubelet finds any. Real devices, nothing pretended; provisioning and attaching are the test's.
import { execFileSync } from "node:child_process";
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { type handleUnaryCall, type ServiceError, status } from "@grpc/grpc-js";
import {
  type NodeExpandVolumeRequest,
  type NodePublishVolumeRequest,
  type NodeServer,
  NodeService,
  type NodeStageVolumeRequest,
  NodeServiceCapability_RPC_Type as Rpc,
} from "../../src/contracts/gen/csi/v1/csi.ts";
import {
  type RegistrationServer,
  RegistrationService,
} from "../../src/contracts/gen/pluginregistration/v1/registration.ts";
import { serveOnSocket } from "../../src/platform/process/grpc.ts";
import { type GrowthManner, grownAtOnce } from "../member-driver/growth-manner.ts";

export interface LoopMemberDriver {
  readonly name: string;
  /** As the provisioner would. */
  createVolume(volumeHandle: string, sizeBytes: number): void;
  /** As the resizer would: the node shows it after NodeExpandVolume, if the driver's manner is so. */
  growVolume(volumeHandle: string, sizeBytes: number): void;
  /** What a slow driver does a while after growVolume: its volume has all that it was asked for. */
  catchUp(volumeHandle: string): void;
  /** How it takes an expansion. */
  readonly growing: { manner: GrowthManner };
  /** As the provisioner would; throws while it is staged. */
  deleteVolume(volumeHandle: string): void;
  fileOf(volumeHandle: string): string;
  /** The loop device over it; undefined when it is not staged. */
  deviceOf(volumeHandle: string): string | undefined;
  /** "Method volumeHandle", in order. */
  readonly calls: string[];
  /** The newest request of each method. */
  readonly requests: Map<string, object>;
  /** While a method is in it, its calls are refused with this. */
  readonly refusals: Map<string, { code: status; details: string }>;
  /** How a device is shown at its path; a device node outlives a reboot, and is left as it is where there is one. */
  readonly publishing: { by: "bind mount" | "device node" };
  /** While a method is in it, this is awaited before the driver does anything about a call of it. */
  readonly before: Map<string, () => Promise<void>>;
  /** The node plugin ends: its sockets are gone; what is published stays. */
  stop(): Promise<void>;
}

const RELEASE_LOOKS = 60;
const CAPABILITIES = [Rpc.STAGE_UNSTAGE_VOLUME, Rpc.EXPAND_VOLUME];

export async function startLoopMemberDriver(
  name: string,
  directory: string,
  registrationDirectory: string,
): Promise<LoopMemberDriver> {
  const files = join(directory, "volumes");
  mkdirSync(files, { recursive: true });
  const fileOf = (volumeHandle: string): string => join(files, volumeHandle);
  const deviceOf = (volumeHandle: string): string | undefined => loopDeviceOver(fileOf(volumeHandle));
  const asked = new Map<string, number>();
  const driver: Omit<LoopMemberDriver, "stop"> = {
    name,
    createVolume: (volumeHandle, sizeBytes) => {
      closeSync(openSync(fileOf(volumeHandle), "wx"));
      truncateSync(fileOf(volumeHandle), sizeBytes);
    },
    growVolume: (volumeHandle, sizeBytes) => {
      const presentBytes = statSync(fileOf(volumeHandle)).size;
      if (presentBytes > sizeBytes) throw new Error(`${volumeHandle} never becomes smaller`);
      asked.set(volumeHandle, sizeBytes);
      truncateSync(fileOf(volumeHandle), grownAtOnce(driver.growing.manner, presentBytes, sizeBytes));
    },
    catchUp: (volumeHandle) => truncateSync(fileOf(volumeHandle), asked.get(volumeHandle)),
    growing: { manner: "Promptly" },
    deleteVolume: (volumeHandle) => {
      if (deviceOf(volumeHandle) !== undefined) throw new Error(`${volumeHandle} is staged`);
      rmSync(fileOf(volumeHandle));
    },
    fileOf,
    deviceOf,
    calls: [],
    requests: new Map(),
    refusals: new Map(),
    before: new Map(),
    publishing: { by: "bind mount" },
  };
  const csiSocket = join(directory, "csi.sock");
  const csi = await serveOnSocket(csiSocket, [{ definition: NodeService, implementation: nodeServer(driver) }]);
  const registration = await serveOnSocket(join(registrationDirectory, `${name}-reg.sock`), [
    { definition: RegistrationService, implementation: registrationServer(name, csiSocket) },
  ]);
  return {
    ...driver,
    stop: async () => {
      await registration.close();
      await csi.close();
    },
  };
}

function nodeServer(driver: Omit<LoopMemberDriver, "stop">): NodeServer {
  const serve =
    <Request extends object, Response>(
      method: string,
      answer: (request: Request) => Response,
    ): handleUnaryCall<Request, Response> =>
    async ({ request }, callback) => {
      const volumeHandle = "volumeId" in request ? String(request.volumeId) : "";
      driver.calls.push(`${method} ${volumeHandle}`.trim());
      driver.requests.set(method, request);
      await driver.before.get(method)?.();
      const refusal = driver.refusals.get(method);
      if (refusal !== undefined) return callback(refusal);
      try {
        callback(null, answer(request));
      } catch (error) {
        callback({ code: status.INTERNAL, details: String(error) } satisfies Partial<ServiceError>);
      }
    };
  return {
    nodeStageVolume: serve("NodeStageVolume", ({ volumeId, publishContext }: NodeStageVolumeRequest) => {
      if (publishContext["attached"] !== "yes") throw new Error(`${volumeId} is not attached`);
      if (driver.deviceOf(volumeId) === undefined)
        execFileSync("losetup", ["--find", driver.fileOf(volumeId)], { stdio: "pipe" });
      return {};
    }),
    nodePublishVolume: serve(
      "NodePublishVolume",
      ({ volumeId, targetPath, volumeCapability }: NodePublishVolumeRequest) => {
        if (volumeCapability?.accessType?.$case !== "block") throw new Error("only raw block volumes");
        const device = driver.deviceOf(volumeId);
        if (device === undefined) throw new Error(`${volumeId} is not staged`);
        if (isMounted(targetPath)) return {};
        if (driver.publishing.by === "device node") return publishNode(device, targetPath);
        closeSync(openSync(targetPath, "w"));
        execFileSync("mount", ["--bind", device, targetPath], { stdio: "pipe" });
        return {};
      },
    ),
    nodeUnpublishVolume: serve("NodeUnpublishVolume", ({ targetPath }) => {
      if (isMounted(targetPath)) execFileSync("umount", [targetPath], { stdio: "pipe" });
      rmSync(targetPath, { force: true });
      return {};
    }),
    nodeUnstageVolume: serve("NodeUnstageVolume", ({ volumeId }) => {
      const device = driver.deviceOf(volumeId);
      if (device !== undefined) execFileSync("losetup", ["--detach", device], { stdio: "pipe" });
      // While anybody on the machine looks at it the kernel only marks it for detaching.
      for (let look = 0; driver.deviceOf(volumeId) !== undefined; look += 1) {
        if (look === RELEASE_LOOKS) throw new Error(`${device} of ${volumeId} is still open`);
        execFileSync("sleep", ["0.05"]);
      }
      return {};
    }),
    nodeExpandVolume: serve("NodeExpandVolume", ({ volumeId }: NodeExpandVolumeRequest) => {
      const device = driver.deviceOf(volumeId);
      if (device === undefined) throw new Error(`${volumeId} is not staged`);
      execFileSync("losetup", ["--set-capacity", device], { stdio: "pipe" });
      return { capacityBytes: statSync(driver.fileOf(volumeId)).size };
    }),
    nodeGetVolumeStats: serve("NodeGetVolumeStats", () => ({ usage: [], volumeCondition: undefined })),
    nodeGetCapabilities: serve("NodeGetCapabilities", () => ({
      capabilities: CAPABILITIES.map((type) => ({ type: { $case: "rpc" as const, value: { type } } })),
    })),
    nodeGetInfo: serve("NodeGetInfo", () => ({
      nodeId: "node",
      maxVolumesPerNode: 0,
      accessibleTopology: undefined,
    })),
  };
}

function publishNode(device: string, path: string): Record<string, never> {
  if (!existsSync(path)) makeNode(path, device);
  return {};
}

/** A device node at `path` that leads where `device` leads. */
export function makeNode(path: string, device: string): void {
  const numbers = execFileSync("stat", ["--format", "%Hr %Lr", device], { encoding: "utf8" }).trim().split(" ");
  execFileSync("mknod", [path, "b", ...numbers]);
}

function registrationServer(name: string, endpoint: string): RegistrationServer {
  return {
    getInfo: (_call, callback) => callback(null, { type: "CSIPlugin", name, endpoint, supportedVersions: ["1.0.0"] }),
    notifyRegistrationStatus: (_call, callback) => callback(null, {}),
  };
}

function loopDeviceOver(file: string): string | undefined {
  if (!existsSync(file)) return undefined;
  const listed = execFileSync("losetup", ["--noheadings", "--output", "NAME", "--associated", file], {
    encoding: "utf8",
  });
  return listed.split("\n").find(Boolean);
}

function isMounted(path: string): boolean {
  return readFileSync("/proc/self/mountinfo", "utf8").includes(` ${path} `);
}
