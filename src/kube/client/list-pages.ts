// A whole list over as many pages as it takes, all of one age.

import { isKubeError, KubeError } from "../kube-error.ts";
import type { KubeObject, Resource } from "../object.ts";
import { collectionPath, query, resourceLabel } from "./api-path.ts";
import type { Keep, ListOptions, ListResult } from "./client.ts";
import { completed, parseAnswer, send, type Wire } from "./wire.ts";

const PAGE_SIZE = 500;
/** A million objects at the default page size. */
const PAGES_LIMIT = 2000;
/** Lists that take longer than the server keeps their start are begun again this often. */
const LIST_RESTARTS_LIMIT = 2;

/** All pages. When the server has forgotten the list's start before its end, the list begins again: two halves of different ages are no list. */
export async function listWhole<T extends KubeObject>(
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
      const kept = keep === undefined ? whole : keep(whole);
      if (kept !== undefined) items.push(kept);
    }
    next = page.metadata.continue;
    if (next === undefined || next === "") return { items, resourceVersion: page.metadata.resourceVersion ?? "" };
  }
  throw new KubeError("Internal", 200, `${subject}: more than ${PAGES_LIMIT} pages`);
}
