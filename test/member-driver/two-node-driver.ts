// The driver as a test drives it without a cluster: its controller and two nodes, all of this machine and in its mounts, and the
// calls that Kubernetes would make of them.
import { join } from "node:path";
import { credentials, Metadata } from "@grpc/grpc-js";
import { pino } from "pino";
import { createRunDirectory, removeRun, removeStaleRuns } from "../../demo/show/run/run-directory.ts";
import {
  ControllerClient,
  VolumeCapability_AccessMode_Mode as Mode,
  NodeClient,
  type VolumeCapability,
} from "../../src/contracts/gen/csi/v1/csi.ts";
import { createCommandPort } from "../../src/platform/process/effects/command-port.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { mountCapability } from "../builders/create-volume-request.ts";
import { startMemberDriver } from "./member-driver.ts";

const BASE = "/dev/shm/tidemark-member-driver";
const DEADLINE_MS = 30_000;
const NAME = "member.test.tidemark.dev";
const commands = createCommandPort(directEffects);

export type TestNode = "node-a" | "node-b";
export const FILESYSTEM = mountCapability();
export const BLOCK: VolumeCapability = {
  accessType: { $case: "block", value: {} },
  accessMode: { mode: Mode.SINGLE_NODE_WRITER },
};

export interface TwoNodeDriver {
  readonly directory: string;
  readonly controller: ControllerClient;
  readonly nodes: Readonly<Record<TestNode, NodeClient>>;
  /** Ends all parts and starts them again, as an update does. */
  restart(): Promise<void>;
  /** Whatever is still mounted or attached is taken away; of a test that was killed, by the next one. */
  close(): Promise<void>;
}

export async function startTwoNodeDriver(): Promise<TwoNodeDriver> {
  await removeStaleRuns(BASE, commands);
  const directory = createRunDirectory(BASE);
  const socket = (part: string): string => join(directory, `${part}.sock`);
  const start = () =>
    Promise.all(
      [undefined, "node-a", "node-b"].map((node) =>
        startMemberDriver(
          { driverName: NAME, directory, socket: socket(node ?? "controller"), controller: node === undefined, node },
          pino({ level: "silent" }),
        ),
      ),
    );
  const nodeClient = (node: TestNode) => new NodeClient(`unix://${socket(node)}`, credentials.createInsecure());
  let parts = await start();
  const controller = new ControllerClient(`unix://${socket("controller")}`, credentials.createInsecure());
  const nodes = { "node-a": nodeClient("node-a"), "node-b": nodeClient("node-b") };
  const stop = () => Promise.all(parts.map((part) => part.close()));
  return {
    ...{ directory, controller, nodes },
    restart: async () => {
      await stop();
      parts = await start();
    },
    close: async () => {
      for (const client of [controller, ...Object.values(nodes)]) client.close();
      await stop();
      await removeRun(directory, commands);
    },
  };
}

type UnaryMethod<Request, Response> = (
  request: Request,
  metadata: Metadata,
  options: { deadline: number },
  callback: (error: Error | null, response: Response) => void,
) => unknown;

/** Rejects with grpc-js' ServiceError. */
export function call<Request, Response>(
  method: UnaryMethod<Request, Response>,
  request: Request,
  deadlineMs = DEADLINE_MS,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    method(request, new Metadata(), { deadline: Date.now() + deadlineMs }, (error, response) =>
      error === null ? resolve(response) : reject(error),
    );
  });
}
