// The port to the API server: what every process reads and writes through. Writes carry an effect point, since
// this port is a fault point (src/platform/process/effects/effects.ts); reads do not. The adapter is kube/http-client.ts.

import type { KubeObject, ObjectMeta, ObjectName, Resource } from "../../../contracts/kubernetes/object.ts";
import type { EffectPoint } from "../../process/effects/effects.ts";

export interface ListOptions {
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /** Page size; the adapter follows `continue` until the list is whole. Default 500. */
  readonly pageSize?: number;
}

/** What a cache stores of an object: its name, UID and resourceVersion at least; undefined: nothing. What it returns is stored whole. */
export type Keep<T> = (object: T) => T | undefined;

export interface ListResult<T> {
  readonly items: T[];
  readonly resourceVersion: string;
}

export type WatchEvent<T> =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: T }
  | { readonly type: "BOOKMARK"; readonly resourceVersion: string };

export interface WatchOptions extends ListOptions {
  readonly resourceVersion: string;
  readonly signal: AbortSignal;
}

/** A server-side-apply configuration: only the fields that the manager owns. */
export type ApplyConfiguration = {
  apiVersion: string;
  kind: string;
  metadata: Pick<
    ObjectMeta,
    "name" | "namespace" | "uid" | "resourceVersion" | "labels" | "annotations" | "ownerReferences"
  >;
  [field: string]: unknown;
};

export interface ApplyOptions {
  readonly fieldManager: string;
  /** Takes over fields that another manager owns. Default false: a conflict is a KubeError "Conflict". */
  readonly force?: boolean;
  readonly subresource?: "status";
}

/** An undefined uid or resourceVersion sets no condition. */
export interface DeleteOptions {
  readonly uid?: string | undefined;
  readonly resourceVersion?: string | undefined;
  readonly propagationPolicy?: "Background" | "Foreground" | "Orphan";
}

export interface KubeClient {
  /** The object, or undefined when there is none. Throws KubeError. */
  get<T extends KubeObject>(resource: Resource<T>, name: ObjectName): Promise<T | undefined>;
  /** All matching objects over as many pages as it takes, at one resourceVersion; of each what `keep` leaves. Throws KubeError. */
  list<T extends KubeObject>(resource: Resource<T>, options?: ListOptions, keep?: Keep<T>): Promise<ListResult<T>>;
  /** Events from a resourceVersion on, bookmarks included; ends when the server closes it. Throws KubeError ("Expired" is 410). */
  watch<T extends KubeObject>(resource: Resource<T>, options: WatchOptions): AsyncIterable<WatchEvent<T>>;
  /** Throws KubeError "AlreadyExists". */
  create<T extends KubeObject>(point: EffectPoint, resource: Resource<T>, object: T): Promise<T>;
  /** Replaces the object (or its status); "Conflict" when its resourceVersion has moved. */
  update<T extends KubeObject>(
    point: EffectPoint,
    resource: Resource<T>,
    object: T,
    subresource?: "status",
  ): Promise<T>;
  /** Server-side apply. Idempotent: applying the same configuration twice changes nothing. */
  apply<T extends KubeObject>(
    point: EffectPoint,
    resource: Resource<T>,
    configuration: ApplyConfiguration,
    options: ApplyOptions,
  ): Promise<T>;
  /** JSON merge patch (RFC 7386). */
  mergePatch<T extends KubeObject>(
    point: EffectPoint,
    resource: Resource<T>,
    name: ObjectName,
    patch: object,
    subresource?: "status",
  ): Promise<T>;
  /** True when it was there. "Conflict" when a precondition fails. */
  delete<T extends KubeObject>(
    point: EffectPoint,
    resource: Resource<T>,
    name: ObjectName,
    options?: DeleteOptions,
  ): Promise<boolean>;
}
