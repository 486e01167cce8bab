// The embedded control plane: the Kubernetes API for the kinds that Tidemark uses, in this process, in memory. One token opens all of
// it, and there are no roles. So it listens on loopback only, and nothing outlives it.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { Logger } from "../../../src/platform/process/log.ts";
import { builtInKind } from "../kinds/built-in-kinds.ts";
import { serveDefinitions } from "../kinds/definitions.ts";
import { KindRegistry } from "../kinds/kind-registry.ts";
import { ContentDeletion } from "../store/content-deletion.ts";
import { GarbageCollector } from "../store/garbage-collection.ts";
import { ObjectWriter, timestamp } from "../store/object-writer.ts";
import { ObjectStore } from "../store/store.ts";
import { type ControlPlaneAccess, refuseStrangers } from "./access.ts";
import { ApiError } from "./api-error.ts";
import { sendError } from "./http-answer.ts";
import { refuseWebPages } from "./loopback-guard.ts";
import { isOpenToAll, route } from "./router.ts";

export interface ControlPlaneOptions {
  /** 0: any free port. */
  readonly port: number;
  readonly host?: "127.0.0.1";
  /** "open": over plain HTTP for each program of this machine. A test's alone, which holds nothing of worth and lives for seconds. */
  readonly access: ControlPlaneAccess | "open";
  readonly log: Logger;
}

export interface ControlPlane {
  readonly url: string;
  readonly port: number;
  /** Ends watches and connections, too. */
  close(): Promise<void>;
}

const LOOPBACK = "127.0.0.1";
const INITIAL_NAMESPACES = ["default", "kube-system"];
/** resourceVersions that a run may use per millisecond of its life without meeting those of the next run. */
const VERSIONS_PER_MS = 100;
/** Longer than clients keep an idle connection, so that none is closed under a request. */
const IDLE_CONNECTION_MS = 90_000;

/** Throws when the address is not loopback, or the port is taken. */
export async function startControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const { port, host = LOOPBACK, access, log } = options;
  if (host !== LOOPBACK)
    throw new Error(`the control plane has no roles and so listens on ${LOOPBACK} only, not on "${String(host)}"`);
  const store = new ObjectStore(Date.now() * VERSIONS_PER_MS);
  const registry = new KindRegistry();
  const writer = new ObjectWriter(store, Date.now);
  const now = () => timestamp(Date.now());
  serveDefinitions(store, registry);
  const controllers = [new GarbageCollector(store, registry, now), new ContentDeletion(store, registry, now)];
  for (const name of INITIAL_NAMESPACES) createNamespace(writer, name);

  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    log.debug({ method: request.method, url: request.url, userAgent: request.headers["user-agent"] }, "request");
    try {
      refuseWebPages(request);
      if (access !== "open" && !isOpenToAll(request)) refuseStrangers(request, access);
      await route({ store, registry, writer }, request, response);
    } catch (error) {
      if (!(error instanceof ApiError) && !request.destroyed)
        log.error({ err: error, method: request.method, url: request.url }, "request failed");
      sendError(response, error);
    }
  };
  const listener = (request: IncomingMessage, response: ServerResponse) => void answer(request, response);
  const server =
    access === "open"
      ? createServer(listener)
      : createTlsServer({ key: access.keyPem, cert: access.certificatePem, minVersion: "TLSv1.3" }, listener);
  server.keepAliveTimeout = IDLE_CONNECTION_MS;
  const bound = await listen(server, port);
  return {
    url: `${access === "open" ? "http" : "https"}://${LOOPBACK}:${bound}`,
    port: bound,
    close: async () => {
      for (const controller of controllers) controller.close();
      await close(server);
    },
  };
}

function createNamespace(writer: ObjectWriter, name: string): void {
  const kind = builtInKind("Namespace");
  writer.create(
    {
      kind,
      address: { namespace: "", name: "" },
      subresource: "",
      fieldManager: "tidemark-control-plane",
      fieldValidation: "Strict",
      dryRun: false,
      warnings: [],
    },
    { apiVersion: "v1", kind: "Namespace", metadata: { name } },
  );
}

async function listen(server: Server, port: number): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port, host: LOOPBACK }, () => {
      server.off("error", reject);
      resolve();
    });
  });
  return (server.address() as AddressInfo).port;
}

async function close(server: Server): Promise<void> {
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
