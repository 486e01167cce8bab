import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { EPOCH_ANNOTATION } from "../../../../../src/contracts/names.ts";
import { createLeaderElection, type LeaderElection } from "../../../../../src/platform/kube/election/lease.ts";
import { createLeaseServer, type Journey, type LeaseServer, PROMPT } from "../../../../fakes/lease-server.ts";
import { createRecordingLog } from "../../../../fakes/recording-log.ts";

interface Candidate extends LeaderElection {
  readonly acquired: number[];
  readonly lost: string[];
}

let server: LeaseServer;
let candidates: Candidate[];

beforeEach(() => {
  jest.useFakeTimers();
  server = createLeaseServer();
  candidates = [];
});

afterEach(async () => {
  const stopped = Promise.all(candidates.map((candidate) => candidate.stop()));
  await pass(60_000);
  await stopped;
  jest.useRealTimers();
  jest.restoreAllMocks();
});

interface CandidateSetup {
  readonly journey?: () => Journey;
  readonly highestKnownEpoch?: () => Promise<number>;
  /** How fast its monotonic clock runs. */
  readonly clockRate?: number;
}

function startCandidate(identity: string, setup: CandidateSetup = {}): Candidate {
  const acquired: number[] = [];
  const lost: string[] = [];
  const rate = setup.clockRate ?? 1;
  const election = createLeaderElection({
    client: server.client(setup.journey),
    log: createRecordingLog().log,
    lease: { namespace: "tidemark-system", name: "policy-engine" },
    identity,
    highestKnownEpoch: setup.highestKnownEpoch ?? (async () => 0),
    onAcquired: (epoch) => void acquired.push(epoch),
    onLost: (reason) => void lost.push(reason),
    clock: { nowMs: () => Date.now(), monotonicMs: () => performance.now() * rate },
  });
  election.start();
  const candidate = { ...election, acquired, lost };
  candidates.push(candidate);
  return candidate;
}

/** Lets time pass for everybody, in small steps. */
async function pass(durationMs: number, afterEachStep: () => void = () => {}): Promise<void> {
  for (let passedMs = 0; passedMs < durationMs; passedMs += 100) {
    await jest.advanceTimersByTimeAsync(100);
    afterEachStep();
  }
}

function epochOnLease(): string | undefined {
  return server.lease()?.metadata.annotations?.[EPOCH_ANNOTATION];
}

describe("taking", () => {
  it("takes a Lease that was never there at once, with epoch 1, in one write", async () => {
    const a = startCandidate("a");
    await pass(100);
    expect([a.isLeader(), a.epoch(), a.acquired]).toEqual([true, 1, [1]]);
    expect(server.lease()).toMatchObject({
      metadata: { resourceVersion: "1" },
      spec: { holderIdentity: "a", leaseDurationSeconds: 15, leaseTransitions: 0 },
    });
    expect(server.lease()?.spec?.renewTime).toMatch(/\.\d{6}Z$/);
    expect(epochOnLease()).toBe("1");
  });

  it("takes an epoch above what the Lease says and above what the caller knows", async () => {
    startCandidate("a");
    await pass(100);
    await candidates[0]?.stop();
    const b = startCandidate("b", { highestKnownEpoch: async () => 41 });
    await pass(100);
    expect(b.epoch()).toBe(42);
    await b.stop();
    const c = startCandidate("c", { highestKnownEpoch: async () => 7 });
    await pass(100);
    expect(c.epoch()).toBe(43);
  });

  it("does not lead while the highest known epoch cannot be read", async () => {
    let broken = true;
    const a = startCandidate("a", {
      highestKnownEpoch: async () => {
        if (broken) throw new Error("the API server is away");
        return 5;
      },
    });
    await pass(20_000);
    expect([a.isLeader(), server.lease()]).toEqual([false, undefined]);
    broken = false;
    await pass(3000);
    expect(a.epoch()).toBe(6);
  });

  it("does not lead over an annotation that is no epoch, since a guess could be too low", async () => {
    server.put({
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { namespace: "tidemark-system", name: "policy-engine", annotations: { [EPOCH_ANNOTATION]: "7x" } },
    });
    const a = startCandidate("a");
    await pass(20_000);
    expect(a.acquired).toEqual([]);
  });

  it("waits a whole lease duration when the Lease is missing although epochs are known: its leader may live", async () => {
    const a = startCandidate("a", { highestKnownEpoch: async () => 5 });
    await pass(14_900);
    expect(a.acquired).toEqual([]);
    await pass(5000);
    expect(a.acquired).toEqual([6]);
  });

  it("lets one of two simultaneous candidates lead", async () => {
    const both = [startCandidate("a"), startCandidate("b")];
    await pass(30_000);
    expect(both.filter((candidate) => candidate.isLeader())).toHaveLength(1);
    expect(both.flatMap(({ acquired }) => acquired)).toEqual([1]);
  });
});

describe("keeping", () => {
  it("renews, and stays with its epoch", async () => {
    const a = startCandidate("a");
    const b = startCandidate("b");
    await pass(120_000);
    expect([a.epoch(), b.epoch(), a.lost]).toEqual([1, undefined, []]);
  });

  it("stays leader when answers to renewals are lost", async () => {
    let requests = 0;
    const a = startCandidate("a", {
      journey: () => {
        requests += 1;
        return { ...PROMPT, answerLost: requests % 5 === 3 };
      },
    });
    await pass(120_000);
    expect([a.epoch(), a.lost]).toEqual([1, []]);
  });

  it("leads no more from the renew deadline on, before another process can, and says so once", async () => {
    let cut = false;
    const a = startCandidate("a", { journey: () => (cut ? { requestMs: 1e9, answerMs: 0 } : PROMPT) });
    await pass(100);
    const b = startCandidate("b");
    await pass(5000);
    cut = true;
    let bothLed = false;
    await pass(9900, () => {
      bothLed ||= a.isLeader() && b.isLeader();
    });
    await pass(2000);
    expect([a.isLeader(), a.epoch(), b.isLeader()]).toEqual([false, undefined, false]);
    await pass(10_000, () => {
      bothLed ||= a.isLeader() && b.isLeader();
    });
    expect([b.epoch(), bothLed, a.lost.length]).toEqual([2, false, 1]);
  });

  it("leads from when it sent its last renewal, however late the answer came", async () => {
    let requestMs = 0;
    let answerMs = 0;
    const a = startCandidate("a", { journey: () => ({ requestMs, answerMs }) });
    await pass(100);
    answerMs = 3900;
    const renewedBefore = server.lease()?.spec?.renewTime;
    let sinceRenewalMs = 0;
    while (server.lease()?.spec?.renewTime === renewedBefore) await pass(100);
    requestMs = 1e9; // nothing that is sent from here on arrives
    let lastLedMs = 0;
    await pass(14_000, () => {
      sinceRenewalMs += 100;
      if (a.isLeader()) lastLedMs = sinceRenewalMs;
    });
    expect(lastLedMs).toBeGreaterThan(9000);
    expect(lastLedMs).toBeLessThanOrEqual(10_000);
  });

  it("is no leader after a pause of the process, though nothing has run in it since", async () => {
    const a = startCandidate("a");
    await pass(100);
    expect(a.isLeader()).toBe(true);
    jest.setSystemTime(Date.now()); // the wall clock stands still, the monotonic one does not
    const before = performance.now();
    jest.spyOn(performance, "now").mockImplementation(() => before + 11_000);
    expect([a.isLeader(), a.epoch()]).toEqual([false, undefined]);
  });

  it("gives way when another holds the Lease, and leads again later with a higher epoch", async () => {
    const a = startCandidate("a");
    await pass(100);
    const lease = server.lease();
    if (lease === undefined) throw new Error("no Lease");
    const annotations = { [EPOCH_ANNOTATION]: "2" };
    server.put({
      ...lease,
      metadata: { ...lease.metadata, annotations },
      spec: { ...lease.spec, holderIdentity: "b" },
    });
    await pass(3000);
    expect([a.isLeader(), a.lost.length]).toEqual([false, 1]);
    await pass(20_000);
    expect(a.epoch()).toBe(3);
  });

  it("gives way when the Lease is deleted, and takes a higher epoch than it had", async () => {
    const a = startCandidate("a", { highestKnownEpoch: async () => a.acquired.at(-1) ?? 0 });
    await pass(100);
    server.put(undefined);
    await pass(3000);
    expect([a.isLeader(), a.lost.length]).toEqual([false, 1]);
    await pass(20_000);
    expect(a.epoch()).toBe(2);
  });
});

describe("stopping", () => {
  it("releases the Lease, so that the next leads within a retry period, with a higher epoch", async () => {
    const a = startCandidate("a");
    await pass(100);
    const b = startCandidate("b");
    await pass(1000);
    await a.stop();
    expect(a.isLeader()).toBe(false);
    await pass(3000);
    expect([b.epoch(), a.lost]).toEqual([2, []]);
  });

  it("does not lead, and releases, when the Lease is granted while it stops", async () => {
    const a = startCandidate("a", { journey: () => ({ requestMs: 500, answerMs: 500 }) });
    await pass(1600);
    expect(server.lease()?.spec?.holderIdentity).toBe("a");
    const stopped = a.stop();
    await pass(3000);
    await stopped;
    expect([a.acquired, server.lease()?.spec?.holderIdentity]).toEqual([[], ""]);
  });
});

describe("any network", () => {
  it.each(Array.from({ length: 20 }, (_, seed) => [seed]))(
    "never has two leaders, and epochs only grow (seed %i)",
    async (seed) => {
      const random = seeded(seed);
      jest.spyOn(Math, "random").mockImplementation(random);
      const three = [0.92, 1, 1.08].map((clockRate, i) =>
        startCandidate(`candidate-${i}`, { journey: changingNetwork(random), clockRate }),
      );
      const epochs: number[] = [];
      let mostLeaders = 0;
      await pass(300_000, () => {
        const leaders = three.filter((candidate) => candidate.isLeader());
        mostLeaders = Math.max(mostLeaders, leaders.length);
        const epoch = leaders[0]?.epoch();
        if (epoch !== undefined && epoch !== epochs.at(-1)) epochs.push(epoch);
      });
      expect(mostLeaders).toBe(1);
      expect(epochs.length).toBeGreaterThan(0);
      expect(epochs).toEqual([...new Set(epochs)].sort((a, b) => a - b));
    },
  );
});

/** Good for a while, then too slow for the renew deadline for a while, over and over; answers get lost in both. */
function changingNetwork(random: () => number): () => Journey {
  let changesMs = 0;
  let slowestMs = 0;
  return () => {
    if (performance.now() >= changesMs) {
      changesMs = performance.now() + 5000 + random() * 25_000;
      slowestMs = slowestMs === 300 ? 40_000 : 300;
    }
    return { requestMs: random() * slowestMs, answerMs: random() * slowestMs, answerLost: random() < 0.1 };
  };
}

/** mulberry32. */
function seeded(seed: number): () => number {
  let state = seed + 1;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
