// Keeps this node's thin pools from filling up: looks whenever lvmd reports its classes or a policy changes, extends what must grow, and
// says what it did or why it could not. Nothing but the policies last heard and lvmd is needed, so it goes on without the API server.
import { Gauge, type Registry } from "prom-client";
import { API_VERSION } from "../../api/names.ts";
import { NODE_STORAGES, type NodeStorage } from "../../api/node-storage.ts";
import type { ClusterVolumePolicy } from "../../api/volume-policy.ts";
import type { DeviceClass, ExtendThinPoolRequest } from "../../gen/tidemark/lvmd/v1/lvmd.ts";
import type { EventRecorder } from "../../kube/events.ts";
import type { ReadableStore } from "../../kube/store.ts";
import type { Logger } from "../../process/log.ts";
import { decideThinPool, type ThinPoolPlan } from "./decide-thin-pool.ts";
import { readGrowth } from "./read-growth.ts";
import { thinPoolFacts } from "./thin-pool-facts.ts";

export interface ThinPoolKeeperParts {
  readonly nodeName: string;
  readonly policies: Pick<ReadableStore<ClusterVolumePolicy>, "list">;
  /** Throws with what lvmd says. */
  readonly extendPool: (wanted: ExtendThinPoolRequest) => Promise<void>;
  readonly events: Pick<EventRecorder, "record">;
  readonly registry: Registry;
  readonly log: Logger;
}

export interface ThinPoolKeeper {
  /** What lvmd reports now; the newest counts. */
  reported(classes: readonly DeviceClass[]): void;
  policiesChanged(): void;
  /** Begins nothing more; what lvmd does already goes on there. */
  stop(): Promise<void>;
}

/** After a failure: lvmd reports anew only when something has changed. */
const RETRY_MS = 10_000;

type Verdict = ThinPoolPlan | { readonly kind: "unreadable"; readonly message: string };

export function createThinPoolKeeper(parts: ThinPoolKeeperParts): ThinPoolKeeper {
  const { policies, registry } = parts;
  let classes: readonly DeviceClass[] = [];
  let looking: Promise<void> | undefined;
  let isStale = false;
  let isStopped = false;
  let retry: NodeJS.Timeout | undefined;
  const full = new Set<string>();
  registerFullGauge(registry, () => classes, full);
  const carryOut = createCarryingOut(parts);

  const lookOnce = async (): Promise<void> => {
    clearTimeout(retry);
    const ends = await Promise.all(
      classes.map(async (one): Promise<End> => {
        const verdict = verdictOn(one, policies.list());
        const end = verdict === undefined ? "done" : await carryOut(one.name, verdict);
        if (end === "done") full.delete(one.name);
        else full.add(one.name);
        return end;
      }),
    );
    if (ends.includes("failed") && !isStopped) retry = setTimeout(look, RETRY_MS);
  };
  // One look at a time: an extension is in the report that follows it, and is not asked for twice.
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

/** full: it must grow and may not; failed: it was tried. */
type End = "done" | "full" | "failed";

/** Tells each change of what there is to tell about a pool, once. */
function createCarryingOut({
  nodeName,
  extendPool,
  events,
  log,
}: ThinPoolKeeperParts): (deviceClass: string, verdict: Verdict) => Promise<End> {
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
          const why = `${verdict.message}: ${(error as Error).message}`;
          tell(deviceClass, "Warning", "ThinPoolExtendFailed", why);
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
