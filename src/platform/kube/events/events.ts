// Events on objects: what people read in `kubectl describe`. Best effort by nature: recording never throws, never waits,
// and gives up under load, because an Event is a copy of what conditions and logs already say.
import { createHash } from "node:crypto";
import { type KubeObject, type ObjectName, objectKey } from "../../../contracts/kubernetes/object.ts";
import { EVENTS, type Event } from "../../../contracts/kubernetes/resources.ts";
import { printable, shortened } from "../../../contracts/printable.ts";
import { type Budget, createBudget } from "../../process/budget.ts";
import type { Logger } from "../../process/log.ts";
import type { KubeClient } from "../client/client.ts";
import { isKubeError } from "../kube-error.ts";

type EventType = "Normal" | "Warning";

interface EventRecorderOptions {
  readonly client: Pick<KubeClient, "create" | "mergePatch">;
  /** Who reports, e.g. "tidemark-operator". */
  readonly component: string;
  readonly nowMs: () => number;
  readonly log: Logger;
}

export interface EventRecorder {
  /** `reason` is CamelCase and belongs to a closed set; `message` is for people. The same three again count up one Event. */
  record(object: KubeObject, type: EventType, reason: string, message: string): void;
  /** Resolves when everything recorded so far has been sent, or given up. */
  flush(): Promise<void>;
}

/** Events whose repetitions are counted; the oldest are forgotten, and would start a new Event. */
const REMEMBERED_EVENTS_LIMIT = 4096;
/** A repetition after this long is a new Event: API servers drop Events after an hour. */
const REMEMBERED_MS = 10 * 60_000;
/** Events that wait to be sent. */
const UNSENT_EVENTS_LIMIT = 1000;
/** The API server's limit. */
const MESSAGE_LIMIT_CHARACTERS = 1024;
const NAME_LIMIT_CHARACTERS = 253;
/** Where Events on cluster-scoped objects live. */
const CLUSTER_SCOPED_NAMESPACE = "default";

interface Entry {
  readonly event: Event;
  readonly firstMs: number;
  lastMs: number;
  count: number;
  created: boolean;
  unsent: boolean;
}

export function createEventRecorder(options: EventRecorderOptions): EventRecorder {
  const { nowMs, log } = options;
  const entries = new Map<string, Entry>();
  const unsent: Entry[] = [];
  const budget = createEventBudget();
  let sending: Promise<void> | undefined;

  const entryFor = (object: KubeObject, type: EventType, reason: string, message: string): Entry => {
    const key = JSON.stringify([object.kind, objectKey(object.metadata), object.metadata.uid, type, reason, message]);
    const known = entries.get(key);
    if (known !== undefined && nowMs() - known.firstMs < REMEMBERED_MS) return known;
    const event = newEvent(object, type, reason, message, options.component, nowMs(), key);
    const entry = { event, firstMs: nowMs(), lastMs: nowMs(), count: 0, created: false, unsent: false };
    entries.delete(key);
    entries.set(key, entry);
    for (const oldest of entries.keys()) {
      if (entries.size <= REMEMBERED_EVENTS_LIMIT) break;
      entries.delete(oldest);
    }
    return entry;
  };
  const sendAll = async (): Promise<void> => {
    for (let entry = unsent.shift(); entry !== undefined; entry = unsent.shift()) {
      entry.unsent = false;
      await sendOne(options, entry);
    }
    sending = undefined;
  };
  const enqueue = (entry: Entry): void => {
    entry.unsent = true;
    unsent.push(entry);
    sending ??= sendAll();
  };
  const admit = (object: KubeObject, reason: string, entry: Entry): void => {
    entry.count += 1;
    entry.lastMs = nowMs();
    if (entry.unsent) return; // goes out with the new count
    if (unsent.length < UNSENT_EVENTS_LIMIT && mayReport(budget, object, nowMs())) enqueue(entry);
    else log.debug({ object: objectKey(object.metadata), reason }, "Event not sent: over its limit");
  };
  return {
    record: (object, type, reason, message) => {
      try {
        admit(object, reason, entryFor(object, type, reason, printable(message)));
      } catch (error) {
        log.warn({ reason, err: error }, "an Event could not be recorded");
      }
    },
    flush: async () => {
      await sending;
    },
  };
}

function mayReport(budget: Budget, object: KubeObject, nowMs: number): boolean {
  return budget.spend(`${object.kind}/${objectKey(object.metadata)}`, nowMs);
}

/** A failure is logged and the Event given up; a repetition sends it again. */
async function sendOne({ client, log }: EventRecorderOptions, entry: Entry): Promise<void> {
  const { event, count } = entry;
  const lastTimestamp = timestamp(entry.lastMs);
  try {
    if (entry.created) {
      await client.mergePatch("event/count", EVENTS, nameOf(event), { count, lastTimestamp });
      return;
    }
    await client.create("event/create", EVENTS, { ...event, count, lastTimestamp });
    entry.created = true;
  } catch (error) {
    // The create's first answer was lost, or the Event has expired: the next repetition does the other.
    if (isKubeError(error, "AlreadyExists")) entry.created = true;
    if (isKubeError(error, "NotFound")) entry.created = false;
    log.warn({ event: objectKey(event.metadata), reason: event.reason, err: error }, "an Event could not be sent");
  }
}

function newEvent(
  object: KubeObject,
  type: EventType,
  reason: string,
  message: string,
  component: string,
  nowMs: number,
  key: string,
): Event {
  const { name, namespace, uid, resourceVersion } = object.metadata;
  const suffix = createHash("sha256").update(`${component} ${nowMs} ${key}`).digest("hex").slice(0, 16);
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: {
      name: `${name.slice(0, NAME_LIMIT_CHARACTERS - suffix.length - 1)}.${suffix}`,
      namespace: namespace ?? CLUSTER_SCOPED_NAMESPACE,
    },
    involvedObject: { apiVersion: object.apiVersion, kind: object.kind, namespace, name, uid, resourceVersion },
    type,
    reason,
    message: shortened(message, MESSAGE_LIMIT_CHARACTERS),
    firstTimestamp: timestamp(nowMs),
    source: { component },
    reportingComponent: component,
    reportingInstance: component,
  };
}

function nameOf({ metadata: { namespace, name } }: Event): ObjectName {
  return { namespace, name };
}

/** metav1.Time: whole seconds. */
function timestamp(wallMs: number): string {
  return new Date(wallMs).toISOString().replace(/\.\d+Z$/, "Z");
}

/** Events on one object at once. */
export const EVENT_BURST_LIMIT = 25;
/** And then one each. */
export const EVENT_INTERVAL_MS = 60_000;
const OBJECTS_LIMIT = 10_000;

/** Accounts are objects' keys. */
function createEventBudget(): Budget {
  return createBudget({ burst: EVENT_BURST_LIMIT, intervalMs: EVENT_INTERVAL_MS, accounts: OBJECTS_LIMIT });
}
