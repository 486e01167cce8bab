// A watch's bytes, as events: one JSON object a line. It ends with the stream and throws KubeError on anything that is no
// event; resuming is the reflector's.

import { KubeError } from "../kube-error.ts";
import type { KubeObject } from "../object.ts";
import type { WatchEvent } from "./client.ts";
import { type ApiStatus, errorOfStatus } from "./status-error.ts";

/** Ten times what etcd stores in one object. */
const WATCH_LINE_LIMIT_BYTES = 16 << 20;
const NEWLINE = 0x0a;

/** `complete` turns an object on the wire into what the client hands out; `subject` names the watch in errors. */
export async function* readWatchEvents<T extends KubeObject>(
  chunks: AsyncIterable<Buffer>,
  subject: string,
  complete: (object: T) => T,
): AsyncGenerator<WatchEvent<T>> {
  for await (const line of splitLines(chunks, subject)) yield eventOf(line, subject, complete);
}

function eventOf<T extends KubeObject>(line: string, subject: string, complete: (object: T) => T): WatchEvent<T> {
  const event = parseEvent(line, subject);
  switch (event.type) {
    case "ADDED":
    case "MODIFIED":
    case "DELETED":
      return { type: event.type, object: complete(withMetadata(event.object as T, subject)) };
    case "BOOKMARK": {
      const { resourceVersion } = withMetadata(event.object as T, subject).metadata;
      if (typeof resourceVersion !== "string")
        throw new KubeError("Internal", 200, `${subject}: a bookmark marks nothing`);
      return { type: "BOOKMARK", resourceVersion };
    }
    case "ERROR": {
      const status = event.object as ApiStatus;
      const code = typeof status.code === "number" ? status.code : 500;
      throw errorOfStatus(subject, code, status, "", undefined);
    }
    default:
      throw new KubeError("Internal", 200, `${subject}: unknown event type "${event.type}"`);
  }
}

function withMetadata<T extends KubeObject>(object: T, subject: string): T {
  if (typeof object.metadata === "object" && object.metadata !== null) return object;
  throw new KubeError("Internal", 200, `${subject}: an event's object has no metadata`);
}

function parseEvent(line: string, subject: string): { type: string; object: unknown } {
  try {
    const event = JSON.parse(line) as { type: string; object: unknown } | null;
    if (event !== null && typeof event.object === "object" && event.object !== null) return event;
  } catch (cause) {
    throw new KubeError("Internal", 200, `${subject}: an event is no JSON: ${line.slice(0, 200)}`, { cause });
  }
  throw new KubeError("Internal", 200, `${subject}: an event has no object: ${line.slice(0, 200)}`);
}

/** Lines without their newline; what follows the last newline is a torn event and is dropped. */
async function* splitLines(chunks: AsyncIterable<Buffer>, subject: string): AsyncGenerator<string> {
  let torn: Buffer[] = [];
  let tornBytes = 0;
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      const line = Buffer.concat([...torn, chunk.subarray(start, end)]).toString("utf8");
      torn = [];
      tornBytes = 0;
      start = end + 1;
      if (line.trim() !== "") yield line;
    }
    if (start < chunk.length) {
      torn.push(chunk.subarray(start));
      tornBytes += chunk.length - start;
    }
    if (tornBytes > WATCH_LINE_LIMIT_BYTES)
      throw new KubeError("Internal", 200, `${subject}: an event is longer than ${WATCH_LINE_LIMIT_BYTES} bytes`);
  }
}
