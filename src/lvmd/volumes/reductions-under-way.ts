// The reductions that this lvmd is at, from their call to their end: each can be told to stop, which it does before its next piece is
// cleared and before LVM is asked. Of what a former lvmd has begun nothing is here.
import type { Refusal } from "../../csi/refusal.ts";
import type { ReduceRequest } from "./reduce-tokens.ts";

/** Why one is to stop: its token was cancelled, or its volume is to be used for something else. */
export type Stop = { readonly kind: "Cancelled" } | { readonly kind: "Preempted"; readonly refusal: Refusal };

export interface ReductionUnderWay {
  /** Undefined: it may go on. */
  stopped(): Stop | undefined;
}

export interface ReductionsUnderWay {
  /** One at a time for each token: whoever calls sees to that. */
  run<T>(request: ReduceRequest, work: (reduction: ReductionUnderWay) => Promise<T>): Promise<T>;
  /** Returns at once; nothing where there is none of this token. */
  cancel(token: string): void;
  isReducing(volumeUUID: string): boolean;
  /** Resolves when all of this volume have ended, one way or the other. */
  preempt(volumeUUID: string, refusal: Refusal): Promise<void>;
}

interface Running {
  readonly request: ReduceRequest;
  ended: Promise<unknown>;
  stop: Stop | undefined;
}

export function createReductionsUnderWay(): ReductionsUnderWay {
  const all = new Set<Running>();
  const of = (volumeUUID: string): Running[] => [...all].filter(({ request }) => request.volumeUUID === volumeUUID);
  return {
    run: (request, work) => {
      const running: Running = { request, ended: Promise.resolve(), stop: undefined };
      all.add(running);
      const end = work({ stopped: () => running.stop }).finally(() => all.delete(running));
      running.ended = end.catch(() => undefined);
      return end;
    },
    cancel: (token) => {
      for (const running of all) if (running.request.token === token) running.stop = { kind: "Cancelled" };
    },
    isReducing: (volumeUUID) => of(volumeUUID).length > 0,
    preempt: async (volumeUUID, refusal) => {
      const running = of(volumeUUID);
      for (const one of running) one.stop ??= { kind: "Preempted", refusal };
      await Promise.all(running.map(({ ended }) => ended));
    },
  };
}
