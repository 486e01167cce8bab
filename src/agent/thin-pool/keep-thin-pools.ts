// The keeper of thin pools with what it hears and whom it asks: policies from the API server, classes from lvmd. Only wiring.
import type { Registry } from "prom-client";
import { CLUSTER_VOLUME_POLICIES } from "../../api/volume-policy.ts";
import { createReflector } from "../../kube/cache/reflector.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { createEventRecorder } from "../../kube/events/events.ts";
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import type { Stoppable } from "../../process/shutdown.ts";
import type { NodeLvm } from "../lvmd-client/node-lvm.ts";
import { createThinPoolKeeper } from "./thin-pool-keeper.ts";

export interface KeepingThinPools {
  readonly nodeName: string;
  readonly lvm: NodeLvm;
  readonly client: KubeClient;
  readonly registry: Registry;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Stopped in reverse. */
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
