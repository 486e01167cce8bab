// What the script plays on: the two writers, the managed volume as it is observed, and the levers that a user has. Acts wait
// for what they see, never for a time; each wait has a limit and says what it waited for.

import type { KubeClient } from "../../../src/platform/kube/client/client.ts";
import { waitUntil } from "../../../src/platform/process/async/pause.ts";
import type { Observer } from "../run/observer.ts";
import type { Processes } from "../run/processes.ts";
import type { RunClock } from "../run/run-clock.ts";
import type { RunLog, StoryKind } from "../run/run-log.ts";
import type { Writer } from "../writers/writer.ts";
import type { DemoVolume, PolicyDocument } from "./demo-claim.ts";
import type { FixedVolume } from "./fixed-volume.ts";

export interface Stage {
  readonly log: RunLog;
  readonly clock: RunClock;
  readonly client: KubeClient;
  readonly processes: Processes;
  readonly observer: Observer;
  readonly storage: "real" | "simulated";
  readonly volume: DemoVolume;
  readonly fixedVolume: FixedVolume;
  readonly managedWriter: Writer;
  readonly fixedWriter: Writer;
  readonly policy: PolicyDocument;
  /** A copy of the policy's file that may be edited. */
  readonly policyFile: string;
  readonly bytesPerSecond: number;
  readonly nominalBytes: number;
  /** Aborted when the run must end: every wait then rejects. */
  readonly ending: AbortSignal;
}

const LOOK_INTERVAL_MS = 5;

export function tell(
  { log, clock }: Pick<Stage, "log" | "clock">,
  kind: StoryKind,
  text: string,
  label?: string,
): void {
  log.story.push({ atMs: clock.nowMs(), kind, text, label });
}

/** Looks every few milliseconds until it holds. Throws after the limit, or when the run is ending. */
export async function until(
  what: string,
  limitMs: number,
  ending: AbortSignal,
  holds: () => boolean | Promise<boolean>,
): Promise<void> {
  const look = (): boolean | Promise<boolean> => {
    ending.throwIfAborted();
    return holds();
  };
  if (!(await waitUntil(look, limitMs, LOOK_INTERVAL_MS)))
    throw new Error(`waited ${limitMs / 1000} s in vain: ${what}`);
}
