// Which replica may write, and under which epoch: higher than any that a record in the API server or on an agent's disk carries.
import { EPOCH_MAX } from "../../api/schema.ts";
import type { KubeClient } from "../../kube/client.ts";
import { createLeaderElection, type LeaderElection } from "../../kube/lease.ts";
import type { Logger } from "../../process/log.ts";
import type { Caches } from "./caches.ts";
import type { PolicyEngineConfig } from "./config.ts";

export interface Leadership extends Pick<LeaderElection, "start" | "stop" | "isLeader" | "epoch"> {
  /** An agent has told the highest epoch on its node's disk. */
  agentKnows(epoch: number): void;
}

export function createLeadership(
  client: KubeClient,
  caches: Caches,
  config: PolicyEngineConfig,
  log: Logger,
  onLeading: () => void,
): Leadership {
  let toldByAgents = 0;
  let stopped = false;
  let succession: Promise<void> | undefined;
  const elect = (): LeaderElection =>
    createLeaderElection({
      client,
      log,
      lease: { namespace: config.leaseNamespace, name: "tidemark-policy-engine" },
      identity: config.identity,
      highestKnownEpoch: async () => {
        await caches.synced;
        return [...epochsOf(caches)].reduce(higherEpoch, toldByAgents);
      },
      onAcquired: onLeading,
      onLost: (reason) => log.warn({ reason }, "this replica only watches now"),
    });
  let election = elect();
  // Records restored from a backup gave an epoch that the agents have seen go by: all that it writes would be refused.
  const takeHigherEpoch = async (): Promise<void> => {
    await election.stop();
    election = elect();
    if (!stopped) election.start();
    succession = undefined;
  };
  return {
    start: () => election.start(),
    stop: async () => {
      stopped = true;
      await succession;
      await election.stop();
    },
    isLeader: () => election.isLeader(),
    epoch: () => election.epoch(),
    agentKnows: (epoch) => {
      toldByAgents = higherEpoch(toldByAgents, epoch);
      const own = election.epoch();
      if (stopped || succession !== undefined || own === undefined || own >= toldByAgents) return;
      log.warn({ own, known: toldByAgents }, "agents know a higher epoch: leading anew under one above it");
      succession = takeHigherEpoch();
    },
  };
}

function higherEpoch(known: number, other: number): number {
  return other > known && other < EPOCH_MAX ? other : known;
}

function* epochsOf({ filesystems, layouts }: Caches): Generator<number> {
  for (const { spec } of filesystems.store.list()) yield spec.target?.epoch ?? 0;
  for (const { spec, status } of layouts.store.list()) {
    yield spec.target?.epoch ?? 0;
    yield spec.emergency?.epoch ?? 0;
    yield status?.epoch ?? 0;
  }
}
