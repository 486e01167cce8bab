// Leader election on a Lease, with an epoch: a number that grows with each leadership, written to the Lease in the same
// update that takes it. Election makes two leaders rare; the epoch makes the stale one harmless, since everything it
// writes carries a number that is refused. (A suspended machine's monotonic clock may stand still: then only the epoch helps.)

import { LEASES, type Lease } from "../../../contracts/kubernetes/resources.ts";
import { withTimeLimit } from "../../process/async/limited-wait.ts";
import { pause } from "../../process/async/pause.ts";
import { type Clock, systemClock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import type { KubeClient } from "../client/client.ts";
import { isKubeError, KubeError } from "../kube-error.ts";
import {
  decideLease,
  epochOf,
  type LeaseRules,
  type Observation,
  observe,
  releasedLease,
  renewedLease,
  takenLease,
} from "./lease-decision.ts";

export interface LeaderElectionOptions {
  readonly client: Pick<KubeClient, "get" | "create" | "update">;
  readonly log: Logger;
  readonly lease: { readonly namespace: string; readonly name: string };
  /** Unique to this start of the process, e.g. pod name and a random part: a restarted process is another candidate. */
  readonly identity: string;
  /** The highest epoch on any Filesystem or FilesystemLayout, or reported by an agent; 0 when there is none. A throw puts the candidacy off. */
  readonly highestKnownEpoch: () => Promise<number>;
  readonly onAcquired: (epoch: number) => void;
  /** Called once per leadership that ended other than by stop(). The candidacy goes on, with a higher epoch. */
  readonly onLost: (reason: string) => void;
  readonly clock?: Clock;
  readonly timing?: LeaseTiming;
}

export interface LeaseTiming {
  /** Others wait this long after the last change that they saw. Must exceed the deadline, by what clocks may differ in rate. */
  readonly leaseDurationMs: number;
  /** A leader that could not renew for this long, counted from before it sent the last good renewal, leads no more. */
  readonly renewDeadlineMs: number;
  readonly retryMs: number;
  /** One request to the API server; the next attempt begins without its answer. */
  readonly attemptLimitMs: number;
}

export interface LeaderElection {
  start(): void;
  /** By the clock of this instant: false before another could have taken the Lease, even if nothing ran in between. */
  isLeader(): boolean;
  /** What every write must carry; undefined when not leading. Ask right before the write, never keep it. */
  epoch(): number | undefined;
  /** Ends leadership, releases the Lease for others to take at once. End the work that needs leadership first. */
  stop(): Promise<void>;
}

const TIMING: LeaseTiming = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryMs: 2000, attemptLimitMs: 4000 };

interface Leadership {
  readonly epoch: number;
  /** On the monotonic clock; moves on with each renewal. */
  untilMs: number;
  /** As last written by us. */
  lease: Lease;
}

export function createLeaderElection(options: LeaderElectionOptions): LeaderElection {
  const { log, onAcquired, onLost, lease } = options;
  const clock = options.clock ?? systemClock;
  const timing = options.timing ?? TIMING;
  const steps = createLeaseSteps(options, clock, timing);
  const stopping = new AbortController();
  let leading: Leadership | undefined;
  let running: Promise<void> = Promise.resolve();

  const isLeader = (): boolean =>
    !stopping.signal.aborted && leading !== undefined && clock.monotonicMs() < leading.untilMs;
  const lose = (reason: string): void => {
    leading = undefined;
    log.warn({ lease: lease.name, reason }, "leadership lost");
    onLost(reason);
  };
  const candidateOnce = async (): Promise<void> => {
    leading = await steps.tryToTake();
    if (leading === undefined || stopping.signal.aborted) return;
    if (!isLeader()) return lose("the answer that granted it came after its deadline");
    log.info({ lease: lease.name, epoch: leading.epoch }, "leading");
    onAcquired(leading.epoch);
  };
  const leadOnce = async (current: Leadership): Promise<void> => {
    if (!isLeader()) return lose(`not renewed within ${timing.renewDeadlineMs} ms`);
    const renewed = await steps.renew(current);
    if (stopping.signal.aborted) return;
    if (renewed === "taken by another") lose("another candidate holds the Lease");
  };
  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      try {
        await (leading === undefined ? candidateOnce() : leadOnce(leading));
      } catch (error) {
        log.warn({ lease: lease.name, err: error }, "the Lease cannot be used; trying again");
      }
      await pause(nextMs(), stopping.signal);
    }
  };
  /** A leader looks again at its deadline at the latest, to say that it is lost. */
  const nextMs = (): number =>
    leading === undefined
      ? timing.retryMs * (1 + Math.random() / 5)
      : Math.min(timing.retryMs, Math.max(0, leading.untilMs - clock.monotonicMs()));

  return {
    isLeader,
    epoch: () => (isLeader() ? leading?.epoch : undefined),
    start: () => {
      running = run();
    },
    stop: async () => {
      stopping.abort();
      await running; // what is under way may take the Lease just now
      if (leading !== undefined) await steps.release(leading);
      leading = undefined;
    },
  };
}

/** The three things that are done to a Lease; each is a bounded number of requests. */
function createLeaseSteps(options: LeaderElectionOptions, clock: Clock, timing: LeaseTiming) {
  const { client, lease: name, identity, highestKnownEpoch, log } = options;
  const rules: LeaseRules = { identity, leaseDurationMs: timing.leaseDurationMs };
  let observation: Observation | undefined;
  const bounded = <T>(what: string, promise: Promise<T>, limitMs = timing.attemptLimitMs): Promise<T> =>
    withTimeLimit(promise, Math.min(limitMs, timing.attemptLimitMs), (waitedMs) => {
      throw new KubeError("Unreachable", 0, `${what} of the Lease: no answer within ${waitedMs} ms`);
    });
  const read = (): Promise<Lease | undefined> => bounded("read", client.get(LEASES, name));
  const writeRenewal = async (current: Leadership): Promise<void> => {
    const sentMs = clock.monotonicMs();
    const renewed = renewedLease(current.lease, clock.nowMs());
    current.lease = await bounded("renew", client.update("lease/renew", LEASES, renewed), current.untilMs - sentMs);
    current.untilMs = sentMs + timing.renewDeadlineMs;
  };

  return {
    /** Undefined when another candidate leads, or was quicker. */
    tryToTake: async (): Promise<Leadership | undefined> => {
      const lease = await read();
      observation = observe(observation, lease, clock.monotonicMs());
      // After the Lease, so that no leader can have come between what is read here and the update's precondition.
      const knownEpoch = await highestKnownEpoch();
      if (decideLease(lease, observation, knownEpoch, clock.monotonicMs(), rules).do === "wait") return undefined;
      const epoch = 1 + Math.max(knownEpoch, epochOf(lease));
      const taken = takenLease(lease, name, epoch, clock.nowMs(), rules);
      const sentMs = clock.monotonicMs();
      try {
        const written = await bounded(
          "take",
          lease === undefined
            ? client.create("lease/create", LEASES, taken)
            : client.update("lease/take", LEASES, taken),
        );
        return { epoch, untilMs: sentMs + timing.renewDeadlineMs, lease: written };
      } catch (error) {
        if (isKubeError(error, "Conflict") || isKubeError(error, "AlreadyExists")) return undefined;
        throw error;
      }
    },

    /** Moves the deadline on. Throws when the API server cannot be asked; the deadline then stands. */
    renew: async (current: Leadership): Promise<"renewed" | "taken by another"> => {
      try {
        await writeRenewal(current);
        return "renewed";
      } catch (error) {
        if (!isKubeError(error, "Conflict") && !isKubeError(error, "NotFound")) throw error;
      }
      // Either another took it, or an earlier renewal of ours arrived though its answer did not.
      const lease = await read();
      if (lease?.spec?.holderIdentity !== identity || epochOf(lease) !== current.epoch) return "taken by another";
      current.lease = lease;
      await writeRenewal(current);
      return "renewed";
    },

    /** Best effort: without it, others wait for the lease duration. */
    release: async (held: Leadership): Promise<void> => {
      try {
        await bounded("release", client.update("lease/release", LEASES, releasedLease(held.lease, clock.nowMs())));
      } catch (error) {
        log.info({ lease: name.name, err: error }, "the Lease was not released; others wait until it expires");
      }
    },
  };
}
