// The slots in which claims of other drivers are asked for their statfs, and what they answered last. Of a server that leaves two
// unanswered no other is asked until one answers. Which claims there are is the measurer's to find.
import type { Sample } from "../../gen/tidemark/samples/v1/samples.ts";
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import { createSampler, type Sampler } from "../sampling/sampler.ts";
import { isRecent } from "../sampling/wire-sample.ts";
import type { SampledReading } from "../volumes/volume-state.ts";
import { claimSample } from "./claim-sample.ts";
import type { MountedClaim } from "./find-claims.ts";

export interface MeasuredClaim {
  readonly claimRef: MountedClaim["claimRef"];
  readonly reading: SampledReading | undefined;
  readonly hung: boolean;
}

export interface ClaimSlots {
  /** From now on just these claims, each at a mount of its own. One whose mount is still there keeps its slot and its reading. */
  hold(claims: readonly MountedClaim[]): void;
  all(): Iterable<MeasuredClaim>;
  /** The newest of all. */
  samples(): Sample[];
  setNextExtend(handle: string, nextExtendUsedBytes: number): void;
  strandedThreads(): number;
  stop(): Promise<void>;
}

export interface ClaimSlotsParts {
  readonly samplerWorkerPath: string;
  readonly offer: (samples: readonly Sample[]) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Measured extends MeasuredClaim {
  claim: MountedClaim;
  readonly mountPath: string;
  reading: SampledReading | undefined;
  /** It does not answer, or its server does not, and it is not asked. */
  hung: boolean;
  asked: boolean;
}

/** statfs may wait for a server, and for as long it delays the others of this node. */
const HUNG_AFTER_MS = 1000;
/** Each holds a thread: of a server that has this many, no other is asked until one answers. */
const HUNG_PER_SERVER_MAX = 2;

export function createClaimSlots({ samplerWorkerPath, offer, clock, log }: ClaimSlotsParts): ClaimSlots {
  const measured = new Map<string, Measured>();
  let sampler: Sampler | undefined;
  const answered = (handle: string, reading: SampledReading): Sample[] => {
    const one = measured.get(handle);
    if (one === undefined) return [];
    one.reading = reading;
    return [claimSample(one.claim, reading)];
  };
  // Most nodes have no such claim, and need no such thread.
  const openSampler = (): Sampler =>
    createSampler({
      workerPath: samplerWorkerPath,
      hungAfterMs: HUNG_AFTER_MS,
      clock,
      log,
      listener: {
        readings: (readings) => offer(readings.flatMap(({ handle, ...reading }) => answered(handle, reading))),
        unreadable: (handle, message) => log.warn({ volume: handle, message }, "the claim's filesystem cannot be read"),
        hung: (handle, hung) => {
          const one = measured.get(handle);
          if (one !== undefined) one.hung = hung;
          askWhoAnswers();
        },
      },
    });
  const ask = (one: Measured): void => {
    one.asked = true;
    one.hung = false;
    sampler ??= openSampler();
    sampler.watch(one.claim.handle, { mountPath: one.mountPath, fsType: "foreign", fsid: "" }, 0);
  };
  const spare = (one: Measured): void => {
    if (one.asked) sampler?.forget(one.claim.handle);
    one.asked = false;
    one.hung = true;
  };
  const askWhoAnswers = (): void => {
    const hungServers = serversThatHang(measured.values());
    for (const one of measured.values()) {
      const isSpared = hungServers.has(one.claim.server);
      if (isSpared && !(one.asked && one.hung)) spare(one);
      if (!isSpared && !one.asked) ask(one);
    }
  };
  const forget = (handle: string): void => {
    measured.delete(handle);
    sampler?.forget(handle);
  };
  const take = (claim: MountedClaim): void => {
    const known = measured.get(claim.handle);
    if (known !== undefined && claim.mountPaths.includes(known.mountPath)) {
      known.claim = claim;
      return;
    }
    const [mountPath] = claim.mountPaths;
    if (mountPath === undefined) return;
    forget(claim.handle);
    const { claimRef } = claim;
    measured.set(claim.handle, { claim, claimRef, mountPath, reading: undefined, hung: false, asked: false });
    log.info({ volume: claim.handle, claim: claim.claimRef, mountPath }, "a claim of another driver is measured");
  };
  return {
    hold: (claims) => {
      const handles = new Set(claims.map(({ handle }) => handle));
      for (const handle of [...measured.keys()]) if (!handles.has(handle)) forget(handle);
      for (const claim of claims) take(claim);
      askWhoAnswers();
    },
    all: () => measured.values(),
    samples: () =>
      [...measured.values()].flatMap(({ claim, reading }) =>
        reading !== undefined && isRecent(reading, clock.monotonicMs()) ? [claimSample(claim, reading)] : [],
      ),
    setNextExtend: (handle, nextExtendUsedBytes) => sampler?.setNextExtend(handle, nextExtendUsedBytes),
    strandedThreads: () => sampler?.strandedThreads() ?? 0,
    stop: async () => {
      await sampler?.stop();
    },
  };
}

function serversThatHang(measured: Iterable<Measured>): Set<string> {
  const hungMounts = new Map<string, number>();
  for (const { asked, hung, claim } of measured)
    if (asked && hung) hungMounts.set(claim.server, (hungMounts.get(claim.server) ?? 0) + 1);
  return new Set([...hungMounts].flatMap(([server, count]) => (count >= HUNG_PER_SERVER_MAX ? [server] : [])));
}
