// Measures this node's ordinary claims: finds kubelet's mounts of them, has each sampled in its own slot, and sends the samples to the
// engines. Its sampling thread is not that of our own filesystems, so that another driver's filesystem that does not answer delays no
// sample of ours. It changes nothing.

import type { Sample } from "../../contracts/gen/tidemark/samples/v1/samples.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { type SampledReading, writeSample } from "../../contracts/reading.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import { isRecent, UNBOUNDED_BYTES } from "../sampling/node-measures.ts";
import { createSampler, type Sampler } from "../sampling/sampler.ts";
import { findClaims, type MountedClaim } from "./find-claims.ts";

export interface ClaimMeasurer extends Omit<ClaimSlots, "hold"> {
  /** The layouts have changed: looks again soon, once for all that change by then. */
  look(): void;
}

export interface ClaimMeasurerParts extends ClaimSlotsParts {
  readonly kubeletDirectory: string;
  /** Those of this node. */
  readonly layouts: () => readonly FilesystemLayout[];
}

/** Only the kernel's mount table shows that a pod has started or ended. */
const LOOK_INTERVAL_MS = 2000;
const LOOK_DELAY_MS = 50;

export function createClaimMeasurer(parts: ClaimMeasurerParts): ClaimMeasurer {
  const { kubeletDirectory, layouts, log } = parts;
  const slots = createClaimSlots(parts);
  let soon: NodeJS.Timeout | undefined;
  const look = (): void => {
    clearTimeout(soon);
    soon = undefined;
    try {
      slots.setClaims(findClaims(kubeletDirectory, layouts()));
    } catch (err) {
      log.warn({ err }, "kubelet's mounts could not be listed; looking again");
    }
  };
  const timer = setInterval(look, LOOK_INTERVAL_MS);
  return {
    ...slots,
    look: () => {
      soon ??= setTimeout(look, LOOK_DELAY_MS);
    },
    stop: async () => {
      clearInterval(timer);
      clearTimeout(soon);
      await slots.stop();
    },
  };
}

export interface MeasuredClaim {
  readonly claimRef: MountedClaim["claimRef"];
  readonly reading: SampledReading | undefined;
  readonly hung: boolean;
}

/**
 * Where claims are asked for their statfs, and what they answered last. Of a server that leaves two unanswered no other is asked until one
 * answers.
 */
export interface ClaimSlots {
  /** From now on just these claims, each at a mount of its own. One whose mount is still there keeps its slot and its reading. */
  setClaims(claims: readonly MountedClaim[]): void;
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
const CLAIM_HUNG_AFTER_MS = 1000;
/** Each holds a thread: of a server that has this many, no other is asked until one answers. */
const HUNG_PER_SERVER_MAX = 2;

interface Slots extends ClaimSlotsParts {
  readonly measured: Map<string, Measured>;
  /** Most nodes have no such claim, and need no such thread. */
  sampler: Sampler | undefined;
}

export function createClaimSlots(parts: ClaimSlotsParts): ClaimSlots {
  const { clock } = parts;
  const slots: Slots = { ...parts, measured: new Map(), sampler: undefined };
  const { measured } = slots;
  return {
    setClaims: (claims) => {
      const handles = new Set(claims.map(({ handle }) => handle));
      for (const handle of [...measured.keys()]) if (!handles.has(handle)) forget(slots, handle);
      for (const claim of claims) take(slots, claim);
      askWhoAnswers(slots);
    },
    all: () => measured.values(),
    samples: () =>
      [...measured.values()].flatMap(({ claim, reading }) =>
        reading !== undefined && isRecent(reading, clock.monotonicMs()) ? [claimSample(claim, reading)] : [],
      ),
    setNextExtend: (handle, nextExtendUsedBytes) => slots.sampler?.setNextExtend(handle, nextExtendUsedBytes),
    strandedThreads: () => slots.sampler?.strandedThreads() ?? 0,
    stop: async () => {
      await slots.sampler?.stop();
    },
  };
}

function forget({ measured, sampler }: Slots, handle: string): void {
  measured.delete(handle);
  sampler?.forget(handle);
}

function take(slots: Slots, claim: MountedClaim): void {
  const { measured, log } = slots;
  const known = measured.get(claim.handle);
  if (known !== undefined && claim.mountPaths.includes(known.mountPath)) {
    known.claim = claim;
    return;
  }
  const [mountPath] = claim.mountPaths;
  if (mountPath === undefined) return;
  forget(slots, claim.handle);
  const { claimRef } = claim;
  measured.set(claim.handle, { claim, claimRef, mountPath, reading: undefined, hung: false, asked: false });
  log.info({ volume: claim.handle, claim: claim.claimRef, mountPath }, "a claim of another driver is measured");
}

function askWhoAnswers(slots: Slots): void {
  const { measured } = slots;
  const hungServers = serversThatHang(measured.values());
  for (const one of measured.values()) {
    const isSpared = hungServers.has(one.claim.server);
    if (isSpared && !(one.asked && one.hung)) spare(slots, one);
    if (!isSpared && !one.asked) ask(slots, one);
  }
}

function ask(slots: Slots, one: Measured): void {
  one.asked = true;
  one.hung = false;
  slots.sampler ??= openSampler(slots);
  slots.sampler.watch(one.claim.handle, { mountPath: one.mountPath, fsType: "foreign", fsid: "" }, 0);
}

function spare({ sampler }: Slots, one: Measured): void {
  if (one.asked) sampler?.forget(one.claim.handle);
  one.asked = false;
  one.hung = true;
}

function openSampler(slots: Slots): Sampler {
  const { samplerWorkerPath, offer, clock, log, measured } = slots;
  const answered = (handle: string, reading: SampledReading): Sample[] => {
    const one = measured.get(handle);
    if (one === undefined) return [];
    one.reading = reading;
    return [claimSample(one.claim, reading)];
  };
  return createSampler({
    workerPath: samplerWorkerPath,
    hungAfterMs: CLAIM_HUNG_AFTER_MS,
    clock,
    log,
    listener: {
      readings: (readings) => offer(readings.flatMap(({ handle, reading }) => answered(handle, reading))),
      unreadable: (handle, message) => log.warn({ volume: handle, message }, "the claim's filesystem cannot be read"),
      hung: (handle, hung) => {
        const one = measured.get(handle);
        if (one !== undefined) one.hung = hung;
        askWhoAnswers(slots);
      },
    },
  });
}

function serversThatHang(measured: Iterable<Measured>): Set<string> {
  const hungMounts = new Map<string, number>();
  for (const { asked, hung, claim } of measured)
    if (asked && hung) hungMounts.set(claim.server, (hungMounts.get(claim.server) ?? 0) + 1);
  return new Set([...hungMounts].flatMap(([server, count]) => (count >= HUNG_PER_SERVER_MAX ? [server] : [])));
}

/** Its newest reading as the policy-engine gets it. Pure. */
function claimSample({ handle, sizeBytes }: MountedClaim, reading: SampledReading): Sample {
  return writeSample(reading, {
    volumeHandle: handle,
    sizeBytes,
    // Only the claim shows what its driver does to the volume.
    operationInProgress: false,
    lastOperationEndedAtMs: 0,
    ioUtilizationRatio: 0,
    nodeFreeBytes: UNBOUNDED_BYTES,
  });
}
