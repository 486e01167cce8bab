// This node's LVM, through its lvmd: one connection for all that the agent asks of it. Only wiring.
import { dirname } from "node:path";
import type { Effects } from "../../process/effects.ts";
import type { Logger } from "../../process/log.ts";
import { type DeviceClasses, followClasses } from "./follow-classes.ts";
import { connectLvmd, type LvmdCalls } from "./lvmd-calls.ts";

export interface NodeLvm {
  readonly calls: LvmdCalls;
  readonly classes: DeviceClasses;
  /** Where lvmd's socket is: the same for every agent of this node, and empty after a reboot. */
  readonly socketDirectory: string;
  stop(): void;
}

export function openNodeLvm(socketPath: string, effects: Effects, log: Logger): NodeLvm {
  const connection = connectLvmd(socketPath, effects);
  const classes = followClasses(connection.client, log);
  return {
    calls: connection.calls,
    classes,
    socketDirectory: dirname(socketPath),
    stop: () => {
      classes.stop();
      connection.close();
    },
  };
}
