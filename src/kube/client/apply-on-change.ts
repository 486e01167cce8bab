// Server-side apply on change only: a status that says what it said before costs no request. It remembers what was applied,
// and looks at the live object as well, so that what somebody else overwrote is applied again.
import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { EffectPoint } from "../../process/effects.ts";
import { type KubeObject, objectKey, type Resource } from "../object.ts";
import type { ApplyConfiguration, ApplyOptions, KubeClient } from "./client.ts";

export interface Applier {
  /**
   * Applies unless the same was applied before and `live` (as the reflector has it) still shows it. True when a request
   * was made. Throws KubeError; what failed is not remembered.
   */
  applyOnChange<T extends KubeObject>(
    point: EffectPoint,
    resource: Resource<T>,
    configuration: ApplyConfiguration,
    options: ApplyOptions,
    live: T | undefined,
  ): Promise<boolean>;
}

/** Remembered configurations, as hashes; one that is forgotten costs one request more. */
const REMEMBERED_LIMIT = 400_000;

export function createApplier(client: Pick<KubeClient, "apply">): Applier {
  const applied = new Map<string, string>();
  return {
    applyOnChange: async (point, resource, configuration, options, live) => {
      const name = `${resource.plural}/${objectKey(configuration.metadata)}`;
      const key = `${options.fieldManager} ${options.subresource ?? ""} ${name}`;
      const hash = hashOf(configuration);
      if (applied.get(key) === hash && live !== undefined && shows(live, configuration)) return false;
      applied.delete(key);
      await client.apply(point, resource, configuration, options);
      applied.set(key, hash);
      if (applied.size > REMEMBERED_LIMIT) applied.delete(applied.keys().next().value ?? "");
      return true;
    },
  };
}

/** Of what it says; the version that it is said on is none of that. */
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
