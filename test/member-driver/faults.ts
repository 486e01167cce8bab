// Which fault, if any, meets a call; those with a number of times are used up.
import type { Fault, RpcName, Switches } from "./switches.ts";

export interface Call {
  readonly rpc: RpcName;
  /** A node's name, or "controller". */
  readonly part: string;
  /** Absent in calls that name none. */
  readonly volumeId?: string | undefined;
}

export interface Faults {
  meeting(call: Call, switches: Switches): Fault | undefined;
}

export function createFaults(): Faults {
  let known = "";
  let used: number[] = [];
  return {
    meeting: (call, { written, faults }) => {
      if (written !== known) [known, used] = [written, faults.map(() => 0)];
      const index = faults.findIndex((fault, at) => meets(fault, call) && (used[at] ?? 0) < (fault.times ?? Infinity));
      if (index >= 0) used[index] = (used[index] ?? 0) + 1;
      return faults[index];
    },
  };
}

function meets(fault: Fault, call: Call): boolean {
  return (["rpc", "part", "volumeId"] as const).every((field) => (fault[field] ?? call[field]) === call[field]);
}
