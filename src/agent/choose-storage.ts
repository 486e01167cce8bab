// Which disk this node has: real loop devices, or the simulated one where there is no root. Only wiring.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../process/clock.ts";
import type { CommandPort } from "../process/command-port.ts";
import type { FilePort } from "../process/file-port.ts";
import type { Logger } from "../process/log.ts";
import type { AgentConfig } from "./config.ts";
import { createBindMounts, createPodLinks, type PodMounts } from "./pod-mounts.ts";
import { createLoopStorage } from "./storage/loop-storage.ts";
import { createSimulatedStorage } from "./storage/simulated-storage.ts";
import type { Storage } from "./storage/storage.ts";

export interface StorageParts {
  readonly commands: CommandPort;
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A dot first: no member can have this name. */
const RECORD_DIRECTORY = ".records";

export function chooseStorage(
  { storage, memberDirectory }: AgentConfig,
  parts: StorageParts,
): { readonly storage: Storage; readonly podMounts: PodMounts } {
  const { commands, files } = parts;
  mkdirSync(memberDirectory, { recursive: true, mode: 0o700 });
  switch (storage) {
    case "real": {
      const recordDirectory = join(memberDirectory, RECORD_DIRECTORY);
      return {
        storage: createLoopStorage({ memberDirectory, recordDirectory, ...parts }),
        podMounts: createBindMounts(commands, files),
      };
    }
    case "simulated":
      return {
        storage: createSimulatedStorage({ directory: memberDirectory, ...parts }),
        podMounts: createPodLinks(commands, files),
      };
  }
}
