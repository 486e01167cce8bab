// Who is told of changes in a store. A handler that throws is a bug of that handler: it is logged and stops nobody else.
import type { Logger } from "../../process/log.ts";
import { type KubeObject, objectKey } from "../object.ts";

/** Quick and synchronous at heart: usually they add a key to a queue. A rejected promise is logged like a throw. */
export interface ChangeHandlers<T> {
  added?(object: T): void | Promise<void>;
  updated?(object: T, before: T): void | Promise<void>;
  deleted?(object: T): void | Promise<void>;
}

export interface Subscribers<T> {
  subscribe(handlers: ChangeHandlers<T>, existing: readonly T[]): void;
  added(object: T): void;
  updated(object: T, before: T): void;
  deleted(object: T): void;
}

/** `label` names the kind in logs. */
export function createSubscribers<T extends KubeObject>(label: string, log: Logger): Subscribers<T> {
  const subscribed: ChangeHandlers<T>[] = [];
  const guarded = (change: string, object: T, call: () => void | Promise<void>): void => {
    const report = (err: unknown): void =>
      log.error({ kind: label, object: objectKey(object.metadata), change, err }, "a change handler threw");
    try {
      const result = call();
      if (result instanceof Promise) result.catch(report);
    } catch (error) {
      report(error);
    }
  };
  const added = (handlers: ChangeHandlers<T>, object: T): void =>
    guarded("added", object, () => handlers.added?.(object));
  return {
    subscribe: (handlers, existing) => {
      subscribed.push(handlers);
      for (const object of existing) added(handlers, object);
    },
    added: (object) => {
      for (const handlers of subscribed) added(handlers, object);
    },
    updated: (object, before) => {
      for (const handlers of subscribed) guarded("updated", object, () => handlers.updated?.(object, before));
    },
    deleted: (object) => {
      for (const handlers of subscribed) guarded("deleted", object, () => handlers.deleted?.(object));
    },
  };
}
