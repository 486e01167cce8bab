// Calls for one volume never overlap on one replica: the second is told to come again, as the CSI specification asks.
import { Refusal } from "../../csi/refusal.ts";
import { shownVolumeId } from "../../csi/volume-id.ts";

/** Runs the call unless another one for this volume (its id, before that its name) is under way. */
export type OneAtATime = <T>(volume: string, answer: () => Promise<T | Refusal>) => Promise<T | Refusal>;

export function createOneAtATime(): OneAtATime {
  const busy = new Set<string>();
  return async (volume, answer) => {
    if (busy.has(volume))
      return new Refusal("ABORTED", `another call for volume "${shownVolumeId(volume)}" is under way`);
    busy.add(volume);
    try {
      return await answer();
    } finally {
      busy.delete(volume);
    }
  };
}
