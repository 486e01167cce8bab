// gRPC: serving on a unix socket that is closed to others, or on an address; and unary calls as effects with a deadline.
import { chmodSync, mkdirSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import {
  type Metadata,
  Server,
  ServerCredentials,
  type ServerOptions,
  type ServiceDefinition,
  type ServiceError,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import type { MutualTls } from "./certificates/mutual-tls.ts";
import type { EffectPoint, Effects } from "./effects/effects.ts";
import { type Address, formatAddress } from "./flags.ts";

export interface GrpcService {
  readonly definition: ServiceDefinition;
  readonly implementation: UntypedServiceImplementation;
}

const MESSAGE_LIMIT_BYTES = 4 << 20;
/** Calls under way may end within this; the process has to stop other parts as well. */
const CLOSE_LIMIT_MS = 2000;

/**
 * Listens on a unix socket of mode 0600. It is bound under a name of its own and moved into place: no process connects before the mode is
 * set, and a second process takes the name over without cutting off the first one's calls.
 */
export async function serveOnSocket(
  socketPath: string,
  services: readonly GrpcService[],
): Promise<{ close(): Promise<void> }> {
  mkdirSync(dirname(socketPath), { recursive: true, mode: 0o700 });
  const server = createServer(services);
  // A dot first: kubelet, which watches some of the directories, looks for sockets of any other name.
  const boundPath = join(dirname(socketPath), `.${basename(socketPath)}.${process.pid}`);
  rmSync(boundPath, { force: true });
  await bind(server, `unix://${boundPath}`, ServerCredentials.createInsecure());
  chmodSync(boundPath, 0o600);
  const { ino } = statSync(boundPath);
  renameSync(boundPath, socketPath);
  return {
    close: async () => {
      await shutDown(server);
      // By then the name may be another process'.
      if (statSync(socketPath, { throwIfNoEntry: false })?.ino === ino) rmSync(socketPath, { force: true });
    },
  };
}

export interface ServedAddress {
  readonly port: number;
  close(): Promise<void>;
}

/** Dead peers are noticed: a node that is gone sends no end of its stream. */
const KEEPALIVE = { "grpc.keepalive_time_ms": 10_000, "grpc.keepalive_timeout_ms": 5000 };

/** Listens on an address in the clear; port 0 takes any free one. Who may do that is for the caller to know. */
export async function serveOnAddress(address: Address, services: readonly GrpcService[]): Promise<ServedAddress> {
  const server = createServer(services, KEEPALIVE);
  const port = await bind(server, formatAddress(address), ServerCredentials.createInsecure());
  return { port, close: () => shutDown(server) };
}

/** The same, for those whom `tls` lets in. */
export async function serveOverTls(
  address: Address,
  tls: MutualTls,
  services: readonly GrpcService[],
): Promise<ServedAddress> {
  const server = createServer(services, KEEPALIVE);
  const inside = server.createConnectionInjector(ServerCredentials.createInsecure());
  const port = await tls.listen(address, (connection) => inside.injectConnection(connection));
  return {
    port,
    close: () => {
      tls.close();
      return shutDown(server);
    },
  };
}

function createServer(services: readonly GrpcService[], options: ServerOptions = {}): Server {
  const server = new Server({ "grpc.max_receive_message_length": MESSAGE_LIMIT_BYTES, ...options });
  for (const { definition, implementation } of services) server.addService(definition, implementation);
  return server;
}

function bind(server: Server, target: string, credentials: ServerCredentials): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(target, credentials, (error, port) => (error === null ? resolve(port) : reject(error)));
  });
}

function shutDown(server: Server): Promise<void> {
  return new Promise((resolve) => {
    const force = setTimeout(() => server.forceShutdown(), CLOSE_LIMIT_MS);
    server.tryShutdown(() => {
      clearTimeout(force);
      resolve();
    });
  });
}

type UnaryMethod<Request, Response> = (
  request: Request,
  metadata: Metadata,
  options: { deadline: number },
  callback: (error: ServiceError | null, response: Response) => void,
) => { cancel(): void };

/**
 * One unary call that changes something, as an effect. Rejects with grpc-js' ServiceError; as CANCELLED once the signal aborts, whatever
 * becomes of it on the other side.
 */
export function callAsEffect<Request, Response>(
  effects: Effects,
  point: EffectPoint,
  method: UnaryMethod<Request, Response>,
  request: Request,
  metadata: Metadata,
  deadlineMs: number,
  signal?: AbortSignal,
): Promise<Response> {
  return effects.run(
    point,
    () =>
      new Promise((resolve, reject) => {
        const cancel = (): void => call.cancel();
        const call = method(request, metadata, { deadline: Date.now() + deadlineMs }, (error, response) => {
          signal?.removeEventListener("abort", cancel);
          if (error === null) resolve(response);
          else reject(error);
        });
        if (signal?.aborted === true) cancel();
        else signal?.addEventListener("abort", cancel, { once: true });
      }),
  );
}

/** For the sockets of other drivers. A path as :authority, which some clients send, is refused by some servers. */
export const SOCKET_OPTIONS = {
  "grpc.default_authority": "localhost",
  // Who calls again does not want to wait for a back-off of the connection.
  "grpc.initial_reconnect_backoff_ms": 50,
  "grpc.max_reconnect_backoff_ms": 500,
} as const;
