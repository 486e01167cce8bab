// One request and its answer in Kubernetes' terms: JSON out, an object or a KubeError back, warnings into the log; or a watch's bytes, as
// events, one JSON object a line. It knows no verbs, and resuming a watch is the reflector's.
import { apiVersionOf, type KubeObject, type Resource } from "../../../contracts/kubernetes/object.ts";
import { shortened } from "../../../contracts/printable.ts";
import type { Effects } from "../../process/effects/effects.ts";
import type { Logger } from "../../process/log.ts";
import { type ApiStatus, errorOfStatus, KubeError, parseStatus } from "../kube-error.ts";
import type { WatchEvent } from "./client.ts";
import type { Transport, TransportAnswer, TransportRequest } from "./transport.ts";

export const JSON_TYPE = "application/json";

export interface Wire {
  readonly transport: Transport;
  readonly effects: Effects;
  readonly userAgent: string;
  readonly warnings: WarningLog;
}

export interface Request {
  readonly method: TransportRequest["method"];
  readonly path: string;
  readonly type?: string;
  readonly body?: object;
}

export async function send(wire: Wire, { method, path, type, body }: Request): Promise<TransportAnswer> {
  const headers = { accept: JSON_TYPE, "user-agent": wire.userAgent, ...(type && { "content-type": type }) };
  const answer = await wire.transport.send({ method, path, headers, body: body && JSON.stringify(body) });
  wire.warnings.hear(answer.headers["warning"]);
  return answer;
}

/** Only a Status that names the object says that it is not there: any other 404 says that the kind is not served, which proves nothing. */
export function saysNoSuchObject({ status, text }: TransportAnswer, name: string): boolean {
  return status === 404 && parseStatus(text)?.details?.name === name;
}

export function parseAnswer<T>(subject: string, answer: TransportAnswer): T {
  if (answer.status < 200 || answer.status > 299) throw refusal(subject, answer);
  try {
    return JSON.parse(answer.text) as T;
  } catch (cause) {
    throw new KubeError("Internal", answer.status, `${subject}: the answer is not JSON`, { cause });
  }
}

export function refusal(subject: string, { status, headers, text }: TransportAnswer): KubeError {
  const retryAfter = headers["retry-after"];
  return errorOfStatus(subject, status, parseStatus(text), text, Array.isArray(retryAfter) ? undefined : retryAfter);
}

/** The object as this client hands it out; changes it in place, it is fresh from the parser. managedFields are half of its memory. */
export function completed<T extends KubeObject>(resource: Resource<T>, object: T): T {
  object.apiVersion ??= apiVersionOf(resource);
  object.kind ??= resource.kind;
  delete (object.metadata as { managedFields?: unknown }).managedFields;
  return object;
}

/** The API server's warnings (RFC 7234 "Warning" headers), logged once each: they come with every request that earns them. */
interface WarningLog {
  hear(header: string | string[] | undefined): void;
}

/** Further warnings are not logged: a process makes few kinds of requests. */
const WARNINGS_LIMIT = 100;

export function createWarningLog(log: Logger | undefined): WarningLog {
  const heard = new Set<string>();
  return {
    hear: (header) => {
      if (header === undefined) return;
      for (const warning of [header].flat()) {
        if (heard.has(warning) || heard.size >= WARNINGS_LIMIT) continue;
        heard.add(warning);
        log?.warn({ warning }, "the API server warns");
      }
    },
  };
}

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
    throw new KubeError("Internal", 200, `${subject}: an event is not JSON: ${shortened(line, 200)}`, { cause });
  }
  throw new KubeError("Internal", 200, `${subject}: an event has no object: ${shortened(line, 200)}`);
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
