// Measures this node's ordinary claims: finds kubelet's mounts of them, samples each in a slot of its own, and tells the engines. A
// sampling thread apart from our own filesystems': what another driver's does not answer delays none of ours. It changes nothing.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { Sample } from "../../gen/tidemark/samples/v1/samples.ts";
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import { createSampler, type Sampler } from "../sampler.ts";
import type { SampledReading } from "../volume-state.ts";
import { claimSample } from "./claim-sample.ts";
import { findClaims, type MountedClaim } from "./find-claims.ts";

export interface MeasuredClaim {
  readonly claimRef: MountedClaim["claimRef"];
  readonly reading: SampledReading | undefined;
  readonly hung: boolean;
}

export interface ClaimMeasurer {
  /** The layouts have changed: looks again soon, once for all that change by then. */
  look(): void;
  all(): Iterable<MeasuredClaim>;
  /** The newest of all. */
  samples(): Sample[];
  setNextExtend(handle: string, nextExtendUsedBytes: number): void;
  strandedThreads(): number;
  stop(): Promise<void>;
}

export interface ClaimMeasurerParts {
  readonly kubeletDirectory: string;
  /** Those of this node. */
  readonly layouts: () => readonly FilesystemLayout[];
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

/** A pod that starts or ends tells nobody but the kernel's table. */
const LOOK_INTERVAL_MS = 2000;
const LOOK_DELAY_MS = 50;

export function createClaimMeasurer(parts: ClaimMeasurerParts): ClaimMeasurer {
  const { clock, log, offer } = parts;
  const measured = new Map<string, Measured>();
  let sampler: Sampler | undefined;
  // Most nodes have no such claim, and need no such thread.
  const openSampler = (): Sampler =>
    createSampler({
      workerPath: parts.samplerWorkerPath,
      hungAfterMs: HUNG_AFTER_MS,
      clock,
      log,
      listener: {
        readings: (readings) =>
          offer(readings.flatMap(({ handle, ...reading }) => took(measured.get(handle), reading))),
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
  const watch = (claim: MountedClaim): void => {
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
  const look = (): void => {
    const found = findClaims(parts.kubeletDirectory, parts.layouts());
    const handles = new Set(found.map(({ handle }) => handle));
    for (const handle of [...measured.keys()]) if (!handles.has(handle)) forget(handle);
    for (const claim of found) watch(claim);
    askWhoAnswers();
  };
  let soon: NodeJS.Timeout | undefined;
  const lookSafely = (): void => {
    clearTimeout(soon);
    soon = undefined;
    try {
      look();
    } catch (err) {
      log.warn({ err }, "kubelet's mounts could not be listed; looking again");
    }
  };
  const timer = setInterval(lookSafely, LOOK_INTERVAL_MS);
  return {
    look: () => {
      soon ??= setTimeout(lookSafely, LOOK_DELAY_MS);
    },
    all: () => measured.values(),
    samples: () =>
      [...measured.values()].flatMap(({ claim, reading }) =>
        reading === undefined ? [] : [claimSample(claim, reading)],
      ),
    setNextExtend: (handle, nextExtendUsedBytes) => sampler?.setNextExtend(handle, nextExtendUsedBytes),
    strandedThreads: () => sampler?.strandedThreads() ?? 0,
    stop: async () => {
      clearInterval(timer);
      clearTimeout(soon);
      await sampler?.stop();
    },
  };
}

function took(one: Measured | undefined, reading: SampledReading): Sample[] {
  if (one === undefined) return [];
  one.reading = reading;
  return [claimSample(one.claim, reading)];
}

function serversThatHang(measured: Iterable<Measured>): Set<string> {
  const hungMounts = new Map<string, number>();
  for (const { asked, hung, claim } of measured)
    if (asked && hung) hungMounts.set(claim.server, (hungMounts.get(claim.server) ?? 0) + 1);
  return new Set([...hungMounts].flatMap(([server, count]) => (count >= HUNG_PER_SERVER_MAX ? [server] : [])));
}
