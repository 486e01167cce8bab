// How much of a sample the member driver's own calls took: whatever lasts while at least one of them is being worked on. Pure.
import type { LoggedRpc } from "../../test/member-driver/rpc-log.ts";

/** Asked by kubelet and sidecars at their own times, for nobody's volume. */
const IN_THE_BACKGROUND: readonly string[] = [
  "Probe",
  "GetPluginInfo",
  "GetPluginCapabilities",
  "NodeGetInfo",
  "GetCapacity",
];

export interface TimeSpan {
  readonly fromMs: number;
  readonly toMs: number;
}

export function driverTimeMs(rpcs: readonly LoggedRpc[], { fromMs, toMs }: TimeSpan): number {
  const within = rpcs
    .filter(({ rpc }) => !IN_THE_BACKGROUND.includes(rpc))
    .map(({ startMs, durationMs }) => ({
      fromMs: Math.max(fromMs, startMs),
      toMs: Math.min(toMs, startMs + durationMs),
    }))
    .filter((one) => one.toMs > one.fromMs)
    .sort((a, b) => a.fromMs - b.fromMs);
  let sumMs = 0;
  let reachedMs = fromMs;
  for (const one of within) {
    sumMs += Math.max(0, one.toMs - Math.max(reachedMs, one.fromMs));
    reachedMs = Math.max(reachedMs, one.toMs);
  }
  return sumMs;
}
