// The KubeClient over HTTP. It translates: requests to paths and headers, refusals to KubeError. It never retries and
// caches nothing; objects come without managedFields and always with apiVersion and kind (lists of built-in kinds leave them out).
import {
  collectionPath,
  type KubeObject,
  type ObjectName,
  objectKey,
  objectPath,
  query,
  type Resource,
  resourceLabel,
} from "../../../contracts/kubernetes/object.ts";
import type { EffectPoint, Effects } from "../../process/effects/effects.ts";
import type { Logger } from "../../process/log.ts";
import { isKubeError, KubeError } from "../kube-error.ts";
import type { Keep, KubeClient, ListOptions, ListResult, WatchEvent, WatchOptions } from "./client.ts";
import type { ClusterConnection } from "./kube-config.ts";
import { createTransport } from "./transport.ts";
import {
  completed,
  createWarningLog,
  JSON_TYPE,
  parseAnswer,
  type Request,
  readWatchEvents,
  refusal,
  saysNoSuchObject,
  send,
  type Wire,
} from "./wire.ts";

interface KubeClientOptions {
  readonly connection: ClusterConnection;
  readonly effects: Effects;
  /** Hears the API server's warnings (deprecated versions, fields that do nothing). */
  readonly log?: Logger;
  /** How audit logs and managedFields name us. */
  readonly userAgent?: string;
}

/** A client that holds connections. */
export interface ConnectedKubeClient extends KubeClient {
  /** Waits for requests under way, cuts watches off. */
  close(): Promise<void>;
}

/** Asked of the server, so that watches spread over its replicas again now and then. */
const WATCH_SECONDS_MIN = 300;
const WATCH_SECONDS_MAX = 600;

const APPLY_TYPE = "application/apply-patch+yaml";
const MERGE_PATCH_TYPE = "application/merge-patch+json";

export function createKubeClient(options: KubeClientOptions): ConnectedKubeClient {
  const transport = createTransport(options.connection);
  const wire: Wire = {
    transport,
    effects: options.effects,
    userAgent: options.userAgent ?? "tidemark",
    warnings: createWarningLog(options.log),
  };
  return { ...createReads(wire), ...createWrites(wire), close: () => transport.close() };
}

function createReads(wire: Wire): Pick<KubeClient, "get" | "list" | "watch"> {
  return {
    get: async (resource, name) => {
      const subject = `get ${resourceLabel(resource)} ${objectKey(name)}`;
      const answer = await send(wire, { method: "GET", path: objectPath(resource, name) });
      if (saysNoSuchObject(answer, name.name)) return undefined;
      return completed(resource, parseAnswer(subject, answer));
    },
    list: (resource, listOptions = {}, keep) => listWhole(wire, resource, listOptions, keep),
    watch: (resource, watchOptions) => watch(wire, resource, watchOptions),
  };
}

function createWrites(wire: Wire): Pick<KubeClient, "create" | "update" | "apply" | "mergePatch" | "delete"> {
  const strict = { fieldValidation: "Strict" };
  return {
    create: (point, resource, object) =>
      write(wire, point, resource, object.metadata, {
        method: "POST",
        path: collectionPath(resource, object.metadata.namespace) + query(strict),
        type: JSON_TYPE,
        body: object,
      }),
    update: (point, resource, object, subresource) =>
      write(wire, point, resource, object.metadata, {
        method: "PUT",
        path: objectPath(resource, object.metadata, subresource) + query(strict),
        type: JSON_TYPE,
        body: object,
      }),
    apply: (point, resource, configuration, { fieldManager, force, subresource }) =>
      write(wire, point, resource, configuration.metadata, {
        method: "PATCH",
        path: objectPath(resource, configuration.metadata, subresource) + query({ ...strict, fieldManager, force }),
        type: APPLY_TYPE, // JSON is YAML
        body: configuration,
      }),
    mergePatch: (point, resource, name, patch, subresource) =>
      write(wire, point, resource, name, {
        method: "PATCH",
        path: objectPath(resource, name, subresource) + query(strict),
        type: MERGE_PATCH_TYPE,
        body: patch,
      }),
    delete: (point, resource, name, { uid, resourceVersion, propagationPolicy } = {}) =>
      wire.effects.run(point, async () => {
        const preconditions = uid === undefined && resourceVersion === undefined ? undefined : { uid, resourceVersion };
        const body = { apiVersion: "v1", kind: "DeleteOptions", preconditions, propagationPolicy };
        const answer = await send(wire, { method: "DELETE", path: objectPath(resource, name), type: JSON_TYPE, body });
        if (saysNoSuchObject(answer, name.name)) return false;
        parseAnswer(`delete ${resourceLabel(resource)} ${objectKey(name)}`, answer);
        return true;
      }),
  };
}

async function write<T extends KubeObject>(
  wire: Wire,
  point: EffectPoint,
  resource: Resource<T>,
  name: ObjectName,
  request: Request,
): Promise<T> {
  const subject = `${point}: ${request.method} ${resourceLabel(resource)} ${objectKey(name)}`;
  return wire.effects.run(point, async () => completed(resource, parseAnswer<T>(subject, await send(wire, request))));
}

async function* watch<T extends KubeObject>(
  wire: Wire,
  resource: Resource<T>,
  { namespace, labelSelector, fieldSelector, resourceVersion, signal }: WatchOptions,
): AsyncGenerator<WatchEvent<T>> {
  const subject = `watch ${resourceLabel(resource)}`;
  const path =
    collectionPath(resource, namespace) +
    query({
      watch: true,
      allowWatchBookmarks: true,
      resourceVersion,
      labelSelector,
      fieldSelector,
      timeoutSeconds: Math.round(WATCH_SECONDS_MIN + Math.random() * (WATCH_SECONDS_MAX - WATCH_SECONDS_MIN)),
    });
  const headers = { accept: JSON_TYPE, "user-agent": wire.userAgent };
  try {
    const request = { method: "GET", path, headers, body: undefined } as const;
    const { status, headers: answered, chunks } = await wire.transport.stream(request, signal);
    if (status !== 200) throw refusal(subject, { status, headers: answered, text: await textOf(chunks) });
    yield* readWatchEvents<T>(chunks, subject, (object) => completed(resource, object));
  } catch (error) {
    if (signal.aborted) return;
    throw error instanceof KubeError
      ? error
      : new KubeError("Unreachable", 0, `${subject}: the connection broke off: ${String(error)}`, { cause: error });
  }
}

const REFUSAL_TEXT_LIMIT_BYTES = 64 << 10;

async function textOf(chunks: AsyncIterable<Buffer>): Promise<string> {
  const read: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of chunks) {
    read.push(chunk);
    sizeBytes += chunk.length;
    if (sizeBytes > REFUSAL_TEXT_LIMIT_BYTES) break;
  }
  return Buffer.concat(read).toString("utf8");
}

// A list over as many pages as it takes, all of one resourceVersion.

const PAGE_SIZE = 500;
/** A million objects at the default page size. */
const PAGES_LIMIT = 2000;
/** How often a list starts over because the server dropped its first pages before its end. */
const LIST_RESTARTS_LIMIT = 2;

/**
 * All pages. When the server has dropped the list's start before its end, the list begins again: halves of different ages do not make a
 * list.
 */
async function listWhole<T extends KubeObject>(
  wire: Wire,
  resource: Resource<T>,
  options: ListOptions,
  keep: Keep<T> | undefined,
): Promise<ListResult<T>> {
  for (let restarts = 0; ; restarts += 1) {
    try {
      return await listPages(wire, resource, options, keep);
    } catch (error) {
      if (!isKubeError(error, "Expired") || restarts >= LIST_RESTARTS_LIMIT) throw error;
    }
  }
}

interface ListPage<T> {
  readonly items?: T[] | null;
  readonly metadata: { readonly resourceVersion?: string; readonly continue?: string };
}

async function listPages<T extends KubeObject>(
  wire: Wire,
  resource: Resource<T>,
  options: ListOptions,
  keep: Keep<T> | undefined,
): Promise<ListResult<T>> {
  const subject = `list ${resourceLabel(resource)}`;
  const items: T[] = [];
  let next: string | undefined;
  for (let pages = 0; pages < PAGES_LIMIT; pages += 1) {
    const { labelSelector, fieldSelector, pageSize } = options;
    const parameters = { labelSelector, fieldSelector, limit: pageSize ?? PAGE_SIZE, continue: next };
    const path = collectionPath(resource, options.namespace) + query(parameters);
    const page = parseAnswer<ListPage<T>>(subject, await send(wire, { method: "GET", path }));
    for (const item of page.items ?? []) {
      const whole = completed(resource, item);
      const projected = keep === undefined ? whole : keep(whole);
      if (projected !== undefined) items.push(projected);
    }
    next = page.metadata.continue;
    if (next === undefined || next === "") return { items, resourceVersion: page.metadata.resourceVersion ?? "" };
  }
  throw new KubeError("Internal", 200, `${subject}: more than ${PAGES_LIMIT} pages`);
}
