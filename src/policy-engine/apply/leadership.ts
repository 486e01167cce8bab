// Which replica may write, and under which epoch: higher than any that a record in the API server or on an agent's disk carries.
import { EPOCH_MAX } from "../../contracts/schema/schema.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { createLeaderElection, type LeaderElection } from "../../platform/kube/election/lease.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { PolicyEngineConfig } from "../config.ts";
import type { Caches } from "../gather/caches.ts";

export interface Leadership extends Pick<LeaderElection, "start" | "stop" | "isLeader" | "epoch"> {
  /** An agent has reported the highest epoch on its node's disk. */
  agentKnows(epoch: number): void;
}

export function createLeadership(
  client: KubeClient,
  caches: Caches,
  config: PolicyEngineConfig,
  log: Logger,
  onLeading: () => void,
): Leadership {
  let reportedByAgents = 0;
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
        return Math.max(highestWritten(caches), [...epochsReported(caches)].reduce(higherEpoch, reportedByAgents));
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
      reportedByAgents = higherEpoch(reportedByAgents, epoch);
      const own = election.epoch();
      if (stopped || succession !== undefined || own === undefined || own >= reportedByAgents) return;
      log.warn({ own, known: reportedByAgents }, "agents know a higher epoch: leading under one above it");
      succession = takeHigherEpoch();
    },
  };
}

/** Half of all numbers: an agent that lies leaves room for more leaders than there will ever be. */
const BELIEVED_MAX = Math.floor(EPOCH_MAX / 2);

/** What an agent has reported, or what has been carried on from there. */
function higherEpoch(known: number, told: number): number {
  return told > known && told <= BELIEVED_MAX ? told : known;
}

/** What leaders have written counts as far as numbers go. */
function highestWritten({ filesystems, layouts }: Caches): number {
  const targets = filesystems.store.list().map(({ spec }) => spec.target?.epoch ?? 0);
  const grants = layouts.store.list().map(({ spec }) => spec.emergency?.epoch ?? 0);
  return [...targets, ...grants].reduce((known, epoch) => (epoch > known && epoch < EPOCH_MAX ? epoch : known), 0);
}

function* epochsReported({ layouts }: Caches): Generator<number> {
  for (const { spec, status } of layouts.store.list()) {
    yield spec.target?.epoch ?? 0;
    yield status?.epoch ?? 0;
  }
}
