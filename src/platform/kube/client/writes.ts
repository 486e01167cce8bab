// How objects are written: on change only, on one version, and read back from what was written last. On change: a status that says what it
// said before costs no request. It remembers what was applied and compares the live object, so that what another writer overwrote is
// applied again.
import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { type KubeObject, objectKey, type Resource } from "../../../contracts/kubernetes/object.ts";
import { BACK_OFFS, backOffMs } from "../../process/async/back-off.ts";
import { pause } from "../../process/async/pause.ts";
import type { Clock } from "../../process/clock.ts";
import type { EffectPoint } from "../../process/effects/effects.ts";
import { isKubeError } from "../kube-error.ts";
import type { ApplyConfiguration, ApplyOptions, KubeClient } from "./client.ts";

export interface Applier {
  /**
   * Applies unless the same was applied before and `live` (as the reflector has it) still shows it. Returns the object as it is then;
   * undefined: no request was made. Throws KubeError. What failed is not remembered, save for a "Conflict": the server has taken nothing then.
   */
  applyOnChange<T extends KubeObject>(
    point: EffectPoint,
    resource: Resource<T>,
    configuration: ApplyConfiguration,
    options: ApplyOptions,
    live: T | undefined,
  ): Promise<T | undefined>;
}

/** Remembered configurations, as hashes; one that is forgotten costs one request more. */
const CONFIGURATIONS_LIMIT = 400_000;

export function createApplier(client: Pick<KubeClient, "apply">): Applier {
  const applied = new Map<string, string>();
  return {
    applyOnChange: async (point, resource, configuration, options, live) => {
      const name = `${resource.plural}/${objectKey(configuration.metadata)}`;
      const key = `${options.fieldManager} ${options.subresource ?? ""} ${name}`;
      const hash = hashOf(configuration);
      const before = applied.get(key);
      if (before === hash && live !== undefined && shows(live, configuration)) return undefined;
      applied.delete(key);
      const answer = await client.apply(point, resource, configuration, options).catch((error: unknown) => {
        if (before !== undefined && isKubeError(error, "Conflict")) applied.set(key, before);
        throw error;
      });
      applied.set(key, hash);
      if (applied.size > CONFIGURATIONS_LIMIT) applied.delete(applied.keys().next().value ?? "");
      return answer;
    },
  };
}

/** Of its contents, without the version. */
function hashOf({ metadata: { resourceVersion: _version, ...metadata }, ...said }: ApplyConfiguration): string {
  return createHash("sha256")
    .update(JSON.stringify({ metadata, ...said }))
    .digest("base64");
}

/** True when `live` has everything that `wanted` says. Lists are compared without order: keyed lists may hold others' entries too. */
export function shows(live: unknown, wanted: unknown): boolean {
  if (Array.isArray(wanted))
    return Array.isArray(live) && wanted.every((entry) => live.some((other) => shows(other, entry)));
  if (typeof wanted !== "object" || wanted === null) return isDeepStrictEqual(live, wanted);
  if (typeof live !== "object" || live === null) return false;
  const fields = live as Readonly<Record<string, unknown>>;
  return Object.entries(wanted).every(([field, value]) => value === undefined || shows(fields[field], value));
}

// Writes that hold for one version of an object. Of two writers, one that was cut off and one that came after it, the slower is refused,
// and decides again on what stands there. Without the version a custom resource's status is taken for any object of the name.

const WRITE_ATTEMPTS_LIMIT = 8;

/** The metadata of an apply that only this very version of this very object takes: "Conflict" otherwise. */
export function versionOf({ metadata }: KubeObject): ApplyConfiguration["metadata"] {
  const { namespace, name, uid, resourceVersion } = metadata;
  return { ...(namespace === undefined ? {} : { namespace }), name, uid, resourceVersion };
}

/**
 * `write` decides on the object that it is handed, which may come from a cache, and writes under its version. After a "Conflict" it runs
 * again on what `read` returns. Returns what `write` does. Throws KubeError: "Conflict" where each attempt met one.
 */
export async function onLatest<T extends KubeObject | undefined, R>(
  object: T,
  read: () => Promise<T>,
  write: (object: T) => Promise<R>,
): Promise<R> {
  let current = object;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await write(current);
    } catch (error) {
      if (!isKubeError(error, "Conflict") || attempt === WRITE_ATTEMPTS_LIMIT) throw error;
      await pause(backOffMs(attempt, BACK_OFFS.conflict, Math.random()));
      current = await read();
    }
  }
}

/** `found`, unless it is another object that has the name since. */
export function sameObject<T extends KubeObject>(before: T, found: T | undefined): T | undefined {
  return found?.metadata.uid === before.metadata.uid ? found : undefined;
}

// What this process has written last to each object, until its cache shows something newer. A decision right after a write is made on what
// the API server has answered: on the cache it would be made on the state of before, and cost a write that is refused.

export interface OwnWrites<T extends KubeObject> {
  /** The answer to a write of the last seconds, as long as the cache still shows what it showed then; else what the cache shows. */
  latest(cached: T | undefined): T | undefined;
  /** `cached`: what the cache showed before that write; undefined: nothing, and then nothing is remembered. */
  wrote(cached: T | undefined, answer: T): void;
}

interface OwnWrite<T> {
  readonly cachedVersion: string | undefined;
  readonly answer: T;
  readonly atMs: number;
}

/**
 * No cache lags for longer while its watch stands. An API server whose records were put back from a backup shows what was there before a write,
 * too: what was written then is not believed for longer.
 */
const BELIEVED_MS = 5000;

/** Remembered answers; one that is forgotten costs one request more. */
const ANSWERS_LIMIT = 20_000;

/** Resource versions are compared for equality alone: nothing says which of two is newer. */
export function createOwnWrites<T extends KubeObject>({ monotonicMs }: Pick<Clock, "monotonicMs">): OwnWrites<T> {
  const writes = new Map<string, OwnWrite<T>>();
  return {
    latest: (cached) => {
      if (cached === undefined) return undefined;
      const key = objectKey(cached.metadata);
      const own = writes.get(key);
      if (own === undefined) return cached;
      const isShown = own.cachedVersion === cached.metadata.resourceVersion;
      const isBelieved = monotonicMs() - own.atMs < BELIEVED_MS;
      if (isShown && isBelieved && own.answer.metadata.uid === cached.metadata.uid) return own.answer;
      writes.delete(key);
      return cached;
    },
    wrote: (cached, answer) => {
      if (cached === undefined) return;
      const key = objectKey(answer.metadata);
      writes.delete(key);
      writes.set(key, { cachedVersion: cached.metadata.resourceVersion, answer, atMs: monotonicMs() });
      if (writes.size > ANSWERS_LIMIT) writes.delete(writes.keys().next().value ?? "");
    },
  };
}
