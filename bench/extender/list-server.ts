// Lists of many objects, made when they are asked for, and watches that tell what the benchmark says: what an extender reads of an API
// server, without the memory and the time that a whole one takes for 300,000 objects.
import type { ServerResponse } from "node:http";
import {
  answerJson,
  isWatch,
  type SeenRequest,
  sendEvents,
  startMisbehavingApiServer,
} from "../../test/fakes/misbehaving-api-server.ts";

export interface Listed {
  readonly count: number;
  /** The object of this index, whole as an API server has it. */
  object(index: number): object;
}

export interface ListServer {
  readonly url: string;
  /** To whoever watches the kind. */
  tell(plural: string, type: "ADDED" | "MODIFIED", object: object): void;
  close(): Promise<void>;
}

const VERSION = "1000";

export async function startListServer(kinds: Readonly<Record<string, Listed>>): Promise<ListServer> {
  const watches = new Map<string, ServerResponse>();
  const server = await startMisbehavingApiServer((request, response) => {
    const plural = request.path.split("/").at(-1) ?? "";
    if (!isWatch(request)) return answerPage(request, response, kinds[plural]);
    watches.set(plural, response);
    sendEvents(response);
  });
  return {
    url: server.server,
    tell: (plural, type, object) => {
      const watch = watches.get(plural);
      if (watch !== undefined) sendEvents(watch, { type, object });
    },
    close: () => server.close(),
  };
}

function answerPage({ query }: SeenRequest, response: ServerResponse, listed: Listed | undefined): void {
  const { count, object } = listed ?? { count: 0, object: () => ({}) };
  const first = Number(query.get("continue") ?? 0);
  const beyond = Math.min(count, first + Number(query.get("limit") ?? count));
  const items = Array.from({ length: beyond - first }, (_, index) => object(first + index));
  const metadata = { resourceVersion: VERSION, ...(beyond < count ? { continue: String(beyond) } : {}) };
  answerJson(response, 200, { metadata, items });
}
