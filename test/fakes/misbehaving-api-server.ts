// An HTTP server that answers as it is told, request by request: for what a healthy API server does not do on demand
// (dropped connections, silence, 410, floods of closed watches). It knows nothing of Kubernetes' rules.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
  /** 1-based, over all connections. */
  readonly connection: number;
}

export type Behaviour = (request: SeenRequest, response: ServerResponse) => void;

export interface MisbehavingApiServer {
  readonly server: string;
  readonly requests: readonly SeenRequest[];
  connections(): number;
  behave(behaviour: Behaviour): void;
  /** Breaks every connection, watches included. */
  cutConnections(): void;
  close(): Promise<void>;
}

export async function startMisbehavingApiServer(behaviour: Behaviour): Promise<MisbehavingApiServer> {
  const requests: SeenRequest[] = [];
  const numbers = new Map<Socket, number>();
  let current = behaviour;
  const server = createServer((incoming, response) => {
    readBody(incoming).then(
      (body) => {
        const url = new URL(incoming.url ?? "/", "http://server");
        const seen: SeenRequest = {
          method: incoming.method ?? "",
          path: url.pathname,
          query: url.searchParams,
          headers: incoming.headers,
          body,
          connection: numbers.get(incoming.socket) ?? 0,
        };
        requests.push(seen);
        current(seen, response);
      },
      () => response.destroy(),
    );
  });
  server.on("connection", (socket) => numbers.set(socket, numbers.size + 1));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    server: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    connections: () => numbers.size,
    behave: (next) => {
      current = next;
    },
    cutConnections: () => server.closeAllConnections(),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export function isWatch(request: SeenRequest): boolean {
  return request.query.get("watch") === "true";
}

export function answerJson(response: ServerResponse, status: number, body: object, headers = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

export function answerStatus(
  response: ServerResponse,
  code: number,
  reason: string,
  message: string,
  details?: { readonly name?: string },
): void {
  answerJson(response, code, { kind: "Status", apiVersion: "v1", status: "Failure", code, reason, message, details });
}

/** Sends watch events and leaves the connection open. */
export function sendEvents(response: ServerResponse, ...events: object[]): void {
  if (!response.headersSent) response.writeHead(200, { "content-type": "application/json" });
  response.flushHeaders();
  for (const event of events) response.write(`${JSON.stringify(event)}\n`);
}

async function readBody(incoming: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of incoming.setEncoding("utf8")) text += chunk;
  return text;
}
