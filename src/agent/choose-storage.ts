// Which storage this node has (real loop devices, logical volumes and other drivers' members, or the simulated disk where there is no
// root), and which of it a volume is on. Only wiring; what a backend does not have is answered here.

import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { SPAN_DRIVER } from "../contracts/names.ts";
import type { KubeClient } from "../platform/kube/client/client.ts";
import { type Clock, readBootID } from "../platform/process/clock.ts";
import type { CommandPort } from "../platform/process/effects/command-port.ts";
import type { Effects } from "../platform/process/effects/effects.ts";
import type { FilePort } from "../platform/process/effects/file-port.ts";
import type { Logger } from "../platform/process/log.ts";
import { type AgentConfig, evictionReserveBytes } from "./config.ts";
import { createBindMounts, createPodLinks, type PodMounts } from "./csi/pod-mounts.ts";
import type { NodeLvm } from "./lvmd-client/node-lvm.ts";
import { createMemberDevices } from "./member-drivers/member-devices.ts";
import { createMemberSecrets, createRegisteredDrivers } from "./member-drivers/node-calls.ts";
import type { MountReader } from "./storage/filesystem/mount-reader.ts";
import { createThreadedMountReader, type ThreadedMountReader } from "./storage/filesystem/threaded-mount-reader.ts";
import { createLoopStorage, type LoopStorage } from "./storage/loop/loop-storage.ts";
import { createLvmStorage, type LvmStorage } from "./storage/lvm/lvm-storage.ts";
import { createSimulatedStorage, type SimulatedStorage } from "./storage/simulated/simulated-storage.ts";
import { createSpanStorage, type SpanStorage } from "./storage/span/span-storage.ts";
import type {
  Members,
  Mounting,
  OneMember,
  Resizing,
  Storage,
  Trimming,
  UnmountedShrinks,
  Volume,
} from "./storage/storage.ts";
import { StorageError } from "./storage/storage-error.ts";

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

export interface ChosenStorage {
  readonly storage: Storage;
  readonly podMounts: PodMounts;
  /** Undefined: nothing is mounted. */
  readonly mounts: ThreadedMountReader | undefined;
}

export function chooseStorage(config: AgentConfig, parts: StorageParts): ChosenStorage {
  const { commands, files, clock, log } = parts;
  const { memberDirectory } = config;
  mkdirSync(memberDirectory, { recursive: true, mode: 0o700 });
  switch (config.storage) {
    case "real": {
      const recordDirectory = join(memberDirectory, RECORD_DIRECTORY);
      const reserveBytes = (diskBytes: number): number =>
        isOnKubeletsDisk(config) ? evictionReserveBytes(config.evictionReserve, diskBytes) : 0;
      const mounts = createThreadedMountReader({ workerPath: config.mountReaderPath, clock, log });
      const loop = createLoopStorage({
        ...{ memberDirectory, recordDirectory, mounts, commands, files, clock, log },
        reserveBytes,
      });
      const others = { lvm: lvmStorage(config, parts, mounts), span: spanStorage(config, parts, mounts) };
      return { storage: storageByBackend(loop, others), podMounts: createBindMounts(commands, files), mounts };
    }
    case "simulated": {
      const simulated = createSimulatedStorage({ directory: memberDirectory, files, clock });
      const podMounts = createPodLinks(commands, files);
      return { storage: storageByBackend(simulated, NO_OTHERS), podMounts, mounts: undefined };
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
  mounts: MountReader,
): LvmStorage | undefined {
  if (lvm === undefined) return undefined;
  const recordDirectory = join(stateDirectory, LVM_RECORD_DIRECTORY);
  const { calls: lvmd, classes, socketDirectory } = lvm;
  return createLvmStorage({ lvmd, classes, socketDirectory, recordDirectory, mounts, commands, files, clock, log });
}

function spanStorage(
  { spanCsiSocket, kubeletDirectory, registrationDirectory, stateDirectory }: AgentConfig,
  { client, effects, commands, files, clock, log }: StorageParts,
  mounts: MountReader,
): SpanStorage | undefined {
  if (spanCsiSocket === undefined) return undefined;
  const devices = createMemberDevices({
    directory: join(kubeletDirectory, "plugins", SPAN_DRIVER),
    drivers: createRegisteredDrivers(registrationDirectory ?? join(kubeletDirectory, "plugins_registry")),
    secrets: createMemberSecrets(client),
    bootID: readBootID(),
    effects,
    files,
  });
  const recordDirectory = join(stateDirectory, SPAN_RECORD_DIRECTORY);
  return createSpanStorage({ recordDirectory, devices, mounts, commands, files, clock, log });
}

/** Those that are not there: this node has none, and a volume that is one is refused. */
export interface OptionalBackends {
  readonly lvm: LvmStorage | undefined;
  readonly span: SpanStorage | undefined;
}

type Backend = Mounting & Resizing & Partial<Trimming & Members & OneMember & UnmountedShrinks>;

export function storageByBackend(loop: LoopStorage | SimulatedStorage, { lvm, span }: OptionalBackends): Storage {
  const of = (volume: Volume): Backend => {
    switch (volume.backend) {
      case "loop":
        return loop;
      case "lvm":
        if (lvm !== undefined) return volume.volumeMode === "Block" ? lvm.raw : lvm.filesystems;
        throw new StorageError(
          "CommandFailed",
          `the agent of this node has no lvmd, so ${volume.handle} cannot be used here; start it with --lvmd-socket`,
        );
      case "span":
        if (span !== undefined) return span;
        throw new StorageError(
          "CommandFailed",
          `the agent of this node serves no spans, so ${volume.handle} cannot be used here; start it with --span-csi-socket`,
        );
    }
  };
  return {
    stage: async (volume, sizeBytes, mountPath) => of(volume).stage(volume, sizeBytes, mountPath),
    unstage: async (volume, mountPath) => of(volume).unstage(volume, mountPath),
    find: async (volume, mountPath) => of(volume).find(volume, mountPath),
    mountPath: async (volume) => of(volume).mountPath(volume),
    remove: async (volume) => of(volume).remove(volume),
    sizeBytes: async (volume) => of(volume).sizeBytes(volume),
    extend: async (volume, sizeBytes, signal, tell) => of(volume).extend(volume, sizeBytes, signal, tell),
    shrink: async (volume, sizeBytes, control) => of(volume).shrink(volume, sizeBytes, control),
    recover: async (volume, signal) => of(volume).recover(volume, signal),
    // Nothing is given back where no host has unused blocks of it.
    trim: async (volume, signal) => of(volume).trim?.(volume, signal) ?? 0,
    ...membersByBackend(of),
    ...unmountedShrinksByBackend(of),
    // What other drivers have left is unknown on this node.
    freeBytes: async (deviceClass) => (deviceClass === undefined ? loop.freeBytes() : lvm?.freeBytes(deviceClass)),
  };
}

/** One member of this node: its size says all, no data moves to another, and no driver has it. */
function membersByBackend(of: (volume: Volume) => Backend): Members {
  return {
    members: async (volume) => {
      const backend = of(volume);
      backend.assertWhole?.(volume);
      return backend.members?.(volume) ?? [];
    },
    immovable: async (volume) => of(volume).immovable?.(volume),
    releaseMembers: async (volume) => of(volume).releaseMembers?.(volume),
    prepareSpares: async (volume, signal) => of(volume).prepareSpares?.(volume, signal),
    giveBack: async (volume) => of(volume).giveBack?.(volume),
  };
}

/** Where nothing could take back a shrink of an unmounted filesystem, there is none, and none to be finished. */
function unmountedShrinksByBackend(of: (volume: Volume) => Backend): UnmountedShrinks {
  return {
    shrinksUnmounted: (volume) => {
      const backend = of(volume);
      return backend.shrinksUnmounted === undefined ? false : backend.shrinksUnmounted(volume);
    },
    shrinkUnmounted: async (volume, sizeBytes, control) => {
      const shrinking = of(volume).shrinkUnmounted?.(volume, sizeBytes, control);
      if (shrinking !== undefined) return shrinking;
      throw new StorageError("CommandFailed", `${volume.handle} is never made smaller while it is unmounted`);
    },
    finishUnmounted: async (volume) => of(volume).finishUnmounted?.(volume),
  };
}
