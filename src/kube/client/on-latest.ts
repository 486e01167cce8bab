// Writes that hold for one version of an object. Of two writers, one that was cut off and one that came after it, the slower is refused,
// and decides again on what stands there. Without the version a custom resource's status is taken for any object of the name.

import { isKubeError } from "../kube-error.ts";
import type { KubeObject } from "../object.ts";
import { backOffMs } from "../queue/back-off.ts";
import { pause } from "../queue/pause.ts";
import type { ApplyConfiguration } from "./client.ts";

const WRITE_ATTEMPTS_LIMIT = 8;
/** A burst of somebody else's writes is let pass; all waits together are under a second. */
const CONFLICT_BACK_OFF = { baseMs: 2, capMs: 200 };

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
      await pause(backOffMs(attempt, CONFLICT_BACK_OFF, Math.random()), new AbortController().signal);
      current = await read();
    }
  }
}

/** `found`, unless it is another object that has the name since. */
export function sameObject<T extends KubeObject>(before: T, found: T | undefined): T | undefined {
  return found?.metadata.uid === before.metadata.uid ? found : undefined;
}
