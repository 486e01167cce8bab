// Keeps this node's thin pools from filling up: looks whenever lvmd reports its classes or a policy changes, extends what must grow, and
// says what it did or why it could not. Nothing but the policies last heard and lvmd is needed, so it goes on without the API server.

import { Gauge, type Registry } from "prom-client";
import type { DeviceClass, ExtendThinPoolRequest } from "../../contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import { NODE_STORAGES, type NodeStorage } from "../../contracts/kinds/node-storage.ts";
import { CLUSTER_VOLUME_POLICIES, type ClusterVolumePolicy } from "../../contracts/kinds/volume-policy.ts";
import { API_VERSION } from "../../contracts/names.ts";
import { withDetail } from "../../contracts/printable.ts";
import { formatBytes } from "../../contracts/quantities/quantity.ts";
import { createReflector } from "../../platform/kube/cache/reflector.ts";
import type { ReadableStore } from "../../platform/kube/cache/store.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { createEventRecorder, type EventRecorder } from "../../platform/kube/events/events.ts";
import { AGAIN_AFTER_MS } from "../../platform/process/async/back-off.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { Stoppable } from "../../platform/process/shutdown.ts";
import type { NodeLvm } from "../lvmd-client/node-lvm.ts";
import { decideThinPool, readGrowth, type ThinPoolPlan, thinPoolFacts } from "./decide-thin-pool.ts";

export interface ThinPoolKeeperParts {
  readonly nodeName: string;
  readonly policies: Pick<ReadableStore<ClusterVolumePolicy>, "list">;
  /** Throws with what lvmd says. */
  readonly extendPool: (wanted: ExtendThinPoolRequest) => Promise<void>;
  readonly events: Pick<EventRecorder, "record">;
  readonly registry: Registry;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly log: Logger;
}

export interface ThinPoolKeeper {
  /** What lvmd reports now; the newest counts. */
  reported(classes: readonly DeviceClass[]): void;
  policiesChanged(): void;
  /** Begins nothing more; what lvmd does already goes on there. */
  stop(): Promise<void>;
}

/**
 * From the end of one extension of a pool to the next: a report may be from before it, and the kernel takes a second to show what was
 * written (drivers/md/dm-thin.c, COMMIT_PERIOD).
 */
const SPACING_MS = 2000;

type Verdict = ThinPoolPlan | { readonly kind: "unreadable"; readonly message: string };

export function createThinPoolKeeper(parts: ThinPoolKeeperParts): ThinPoolKeeper {
  const { policies, registry, clock } = parts;
  let classes: readonly DeviceClass[] = [];
  let looking: Promise<void> | undefined;
  let isStale = false;
  let isStopped = false;
  let retry: NodeJS.Timeout | undefined;
  const full = new Set<string>();
  registerFullGauge(registry, () => classes, full);
  const carryOut = createCarryingOut(parts);

  const notBeforeMs = new Map<string, number>();
  /** Reports that were acted on: the next one says what came of it. */
  const answered = new WeakSet<DeviceClass>();

  const lookAt = async (one: DeviceClass): Promise<End> => {
    // How full the pool is now is unknown: what was reported of it stands.
    if (one.thinPool !== undefined && one.problem !== "") return "done";
    const verdict = answered.has(one) ? undefined : verdictOn(one, policies.list());
    if (verdict?.kind === "extend" && clock.monotonicMs() < (notBeforeMs.get(one.name) ?? 0)) return "early";
    const end = verdict === undefined ? "done" : await carryOut(one.name, verdict);
    if (verdict?.kind === "extend") {
      notBeforeMs.set(one.name, clock.monotonicMs() + SPACING_MS);
      if (end === "done") answered.add(one);
    }
    if (end === "done") full.delete(one.name);
    else full.add(one.name);
    return end;
  };
  const lookOnce = async (): Promise<void> => {
    clearTimeout(retry);
    const ends = await Promise.all(classes.map(lookAt));
    const waits = [
      ...(ends.includes("early") ? [SPACING_MS] : []),
      ...(ends.includes("failed") ? [AGAIN_AFTER_MS.unwatched] : []),
    ];
    if (waits.length > 0 && !isStopped) retry = setTimeout(look, Math.min(...waits));
  };
  // One look at a time, and always at the newest report. Sizes are absolute: a report from before an extension, or another process that was
  // quicker (LVM's own dmeventd), changes nothing.
  const look = (): void => {
    isStale = true;
    looking ??= (async () => {
      while (isStale && !isStopped) {
        isStale = false;
        await lookOnce();
      }
    })().finally(() => {
      looking = undefined;
    });
  };
  return {
    reported: (now) => {
      classes = now;
      look();
    },
    policiesChanged: look,
    stop: async () => {
      isStopped = true;
      clearTimeout(retry);
      await looking;
    },
  };
}

/** full: it must grow and may not; failed: it was tried; early: it was extended just now, and what was reported stands. */
export type End = "done" | "full" | "failed" | "early";

/** Reports each change of what there is to say about a pool, once. */
function createCarryingOut({
  nodeName,
  extendPool,
  events,
  log,
}: ThinPoolKeeperParts): (deviceClass: string, verdict: Verdict) => Promise<Exclude<End, "early">> {
  const said = new Map<string, string>();
  const tell = (deviceClass: string, type: "Normal" | "Warning", reason: string, message: string): void => {
    if (said.get(deviceClass) === reason && type === "Warning") return;
    said.set(deviceClass, reason);
    events.record(nodeStorage(nodeName), type, reason, message);
    log.info({ deviceClass, reason }, message);
  };
  return async (deviceClass, verdict) => {
    switch (verdict.kind) {
      case "unreadable":
        tell(deviceClass, "Warning", "PolicyInvalid", verdict.message);
        return "done";
      case "hold":
        if (verdict.reason === "WithinBounds") said.delete(deviceClass);
        else tell(deviceClass, "Warning", verdict.reason, verdict.message);
        return verdict.reason === "ThinPoolFull" ? "full" : "done";
      case "extend":
        try {
          await extendPool({ deviceClass, sizeBytes: verdict.sizeBytes, metadataSizeBytes: verdict.metadataSizeBytes });
        } catch (error) {
          const what = `thin pool ${deviceClass} was not extended to ${formatBytes(verdict.sizeBytes)} and ${formatBytes(verdict.metadataSizeBytes)}`;
          tell(deviceClass, "Warning", "ThinPoolExtendFailed", withDetail(what, (error as Error).message));
          return "failed";
        }
        tell(deviceClass, "Normal", "ThinPoolExtended", verdict.message);
        return "done";
    }
  };
}

/** Undefined: there is no thin pool, or no policy on it. */
function verdictOn(deviceClass: DeviceClass, policies: readonly ClusterVolumePolicy[]): Verdict | undefined {
  const facts = thinPoolFacts(deviceClass);
  if (facts === undefined) return undefined;
  const growth = readGrowth(policies, deviceClass.name);
  if (growth === undefined) return undefined;
  return "problem" in growth ? { kind: "unreadable", message: growth.problem } : decideThinPool(facts, growth);
}

function nodeStorage(name: string): NodeStorage {
  return { apiVersion: API_VERSION, kind: NODE_STORAGES.kind, metadata: { name } } as NodeStorage;
}

function registerFullGauge(registry: Registry, classes: () => readonly DeviceClass[], full: ReadonlySet<string>): void {
  new Gauge({
    name: "tidemark_thin_pool_full",
    help: "1 where a thin pool must grow and cannot, else 0.",
    labelNames: ["device_class"],
    registers: [registry],
    collect() {
      this.reset();
      for (const { name, thinPool } of classes()) {
        if (thinPool !== undefined) this.set({ device_class: name }, full.has(name) ? 1 : 0);
      }
    },
  });
}

export interface KeepingThinPools {
  readonly nodeName: string;
  readonly lvm: NodeLvm;
  readonly client: KubeClient;
  readonly registry: Registry;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The keeper with what it hears and whom it asks: policies from the API server, classes from lvmd. Stopped in reverse. */
export function keepThinPools({ nodeName, lvm, client, registry, clock, log }: KeepingThinPools): Stoppable[] {
  const policies = createReflector({ client, resource: CLUSTER_VOLUME_POLICIES, log });
  const events = createEventRecorder({ client, component: "tidemark-agent", nowMs: clock.nowMs, log });
  const extendPool = lvm.calls.extendThinPool;
  const keeper = createThinPoolKeeper({ nodeName, policies: policies.store, extendPool, events, registry, clock, log });
  const { policiesChanged } = keeper;
  policies.subscribe({ added: policiesChanged, updated: policiesChanged, deleted: policiesChanged });
  lvm.classes.subscribe(() => keeper.reported(lvm.classes.list() ?? []));
  policies.start();
  return [
    { name: "events on thin pools", stop: () => events.flush() },
    { name: "keeper of thin pools", stop: () => keeper.stop() },
    { name: "policies on thin pools", stop: () => policies.stop() },
  ];
}
