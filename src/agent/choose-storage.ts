// Which disks this node has: real loop devices, logical volumes and other drivers' members, or the simulated disk where there is no
// root. Only wiring.

import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { SPAN_DRIVER } from "../api/names.ts";
import type { KubeClient } from "../kube/client/client.ts";
import type { Clock } from "../process/clock.ts";
import type { CommandPort } from "../process/command-port.ts";
import type { Effects } from "../process/effects.ts";
import type { FilePort } from "../process/file-port.ts";
import type { Logger } from "../process/log.ts";
import type { AgentConfig } from "./config.ts";
import { createBindMounts, createPodLinks, type PodMounts } from "./csi/pod-mounts.ts";
import type { NodeLvm } from "./lvmd-client/node-lvm.ts";
import { createMemberDevices } from "./member-drivers/member-devices.ts";
import { createMemberSecrets } from "./member-drivers/member-secrets.ts";
import { createRegisteredDrivers } from "./member-drivers/registered-drivers.ts";
import { evictionReserveBytes } from "./storage/loop/eviction-reserve.ts";
import { createLoopStorage } from "./storage/loop/loop-storage.ts";
import { createLvmStorage, type LvmStorage } from "./storage/lvm/lvm-storage.ts";
import { createSimulatedStorage } from "./storage/simulated/simulated-storage.ts";
import { createSpanStorage } from "./storage/span/span-storage.ts";
import type { SpanVolume, Storage } from "./storage/storage.ts";
import { storageByBackend } from "./storage/storage-by-backend.ts";

export interface StorageParts {
  readonly client: Pick<KubeClient, "get">;
  /** Undefined: this node has no LVM. */
  readonly lvm: NodeLvm | undefined;
  readonly effects: Effects;
  readonly commands: CommandPort;
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A dot first: no member can have this name. */
const RECORD_DIRECTORY = ".records";
/** In the agent's state directory. */
const SPAN_RECORD_DIRECTORY = "spans";
const LVM_RECORD_DIRECTORY = "lvm";
const NO_OTHERS = { lvm: undefined, span: undefined };

export function chooseStorage(
  config: AgentConfig,
  parts: StorageParts,
): { readonly storage: Storage; readonly podMounts: PodMounts } {
  const { commands, files, clock, log } = parts;
  const { memberDirectory } = config;
  mkdirSync(memberDirectory, { recursive: true, mode: 0o700 });
  switch (config.storage) {
    case "real": {
      const recordDirectory = join(memberDirectory, RECORD_DIRECTORY);
      const reserveBytes = (diskBytes: number): number =>
        isOnKubeletsDisk(config) ? evictionReserveBytes(config.evictionReserve, diskBytes) : 0;
      const loop = createLoopStorage({
        ...{ memberDirectory, recordDirectory, commands, files, clock, log },
        reserveBytes,
      });
      return {
        storage: storageByBackend(loop, { lvm: lvmStorage(config, parts), span: spanStorage(config, parts) }),
        podMounts: createBindMounts(commands, files),
      };
    }
    case "simulated": {
      const simulated = createSimulatedStorage({ directory: memberDirectory, files, clock });
      return { storage: storageByBackend(simulated, NO_OTHERS), podMounts: createPodLinks(commands, files) };
    }
  }
}

/** Asked each time: either may be mounted later. Where kubelet's directory is not there, no kubelet evicts anything. */
function isOnKubeletsDisk({ memberDirectory, kubeletDirectory }: AgentConfig): boolean {
  const kubelets = statSync(kubeletDirectory, { throwIfNoEntry: false });
  return kubelets?.dev === statSync(memberDirectory).dev;
}

function lvmStorage(
  { stateDirectory }: AgentConfig,
  { lvm, commands, files, clock, log }: StorageParts,
): LvmStorage | undefined {
  if (lvm === undefined) return undefined;
  const recordDirectory = join(stateDirectory, LVM_RECORD_DIRECTORY);
  const { calls: lvmd, classes, socketDirectory } = lvm;
  return createLvmStorage({ lvmd, classes, socketDirectory, recordDirectory, commands, files, clock, log });
}

function spanStorage(
  { spanCsiSocket, kubeletDirectory, registrationDirectory, stateDirectory }: AgentConfig,
  { client, effects, commands, files, clock, log }: StorageParts,
): Storage<SpanVolume> | undefined {
  if (spanCsiSocket === undefined) return undefined;
  const devices = createMemberDevices({
    directory: join(kubeletDirectory, "plugins", SPAN_DRIVER),
    drivers: createRegisteredDrivers(registrationDirectory ?? join(kubeletDirectory, "plugins_registry")),
    secrets: createMemberSecrets(client),
    effects,
    files,
  });
  const recordDirectory = join(stateDirectory, SPAN_RECORD_DIRECTORY);
  return createSpanStorage({ recordDirectory, devices, commands, files, clock, log });
}
