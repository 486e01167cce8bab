// gRPC on unix sockets: serving with the socket closed to others, and unary calls as effects with a deadline.
import { chmodSync, mkdirSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname } from "node:path";
import {
  type Metadata,
  Server,
  ServerCredentials,
  type ServiceDefinition,
  type ServiceError,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import type { EffectPoint, Effects } from "./effects.ts";

export interface GrpcService {
  readonly definition: ServiceDefinition;
  readonly implementation: UntypedServiceImplementation;
}

const MESSAGE_LIMIT_BYTES = 4 << 20;
/** Calls under way may end within this; the process has to stop other parts as well. */
const CLOSE_LIMIT_MS = 2000;

/**
 * Listens on a unix socket of mode 0600. It is bound under a name of its own and moved into place, so that nobody can connect
 * before the mode is set, and a second process takes the name over instead of cutting the first one off in mid-air.
 */
export async function serveOnSocket(
  socketPath: string,
  services: readonly GrpcService[],
): Promise<{ close(): Promise<void> }> {
  mkdirSync(dirname(socketPath), { recursive: true, mode: 0o700 });
  const server = new Server({ "grpc.max_receive_message_length": MESSAGE_LIMIT_BYTES });
  for (const { definition, implementation } of services) server.addService(definition, implementation);
  const boundPath = `${socketPath}.${process.pid}`;
  rmSync(boundPath, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix://${boundPath}`, ServerCredentials.createInsecure(), (error) =>
      error === null ? resolve() : reject(error),
    );
  });
  chmodSync(boundPath, 0o600);
  const { ino } = statSync(boundPath);
  renameSync(boundPath, socketPath);
  return {
    close: async () => {
      await new Promise<void>((resolve) => {
        const force = setTimeout(() => server.forceShutdown(), CLOSE_LIMIT_MS);
        server.tryShutdown(() => {
          clearTimeout(force);
          resolve();
        });
      });
      // By then the name may be another process'.
      if (statSync(socketPath, { throwIfNoEntry: false })?.ino === ino) rmSync(socketPath, { force: true });
    },
  };
}

type UnaryMethod<Request, Response> = (
  request: Request,
  metadata: Metadata,
  options: { deadline: number },
  callback: (error: ServiceError | null, response: Response) => void,
) => unknown;

/** One unary call that changes something, as an effect. Rejects with grpc-js' ServiceError. */
export function callAsEffect<Request, Response>(
  effects: Effects,
  point: EffectPoint,
  method: UnaryMethod<Request, Response>,
  request: Request,
  metadata: Metadata,
  deadlineMs: number,
): Promise<Response> {
  return effects.run(
    point,
    () =>
      new Promise((resolve, reject) => {
        method(request, metadata, { deadline: Date.now() + deadlineMs }, (error, response) =>
          error === null ? resolve(response) : reject(error),
        );
      }),
  );
}
