// How a staged volume, filesystem or raw device, appears in a pod's directory: a bind mount, and on the simulated disk a symbolic link. Both are
// idempotent and never touch what is in the filesystem.
import { lstatSync, readlinkSync } from "node:fs";
import { basename, dirname } from "node:path";
import type { VolumeMode } from "../../contracts/kinds/filesystem-layout.ts";
import type { CommandPort, CommandResult } from "../../platform/process/effects/command-port.ts";
import type { FilePort } from "../../platform/process/effects/file-port.ts";
import { shownPath } from "../storage/block/raw-device.ts";
import {
  assertNoLink,
  blockDeviceAt,
  deviceNameOf,
  isMountOf,
  type Mount,
  mountAt,
  mountedAnywhere,
  mountsOf,
  readMountTable,
} from "../storage/filesystem/devices-and-mounts.ts";
import { readSimulatedCapacity } from "../storage/simulated/simulated-reader.ts";
import type { MountedVolume } from "../storage/storage.ts";
import { StorageError } from "../storage/storage-error.ts";

export interface Publishing {
  /** For a raw device kubelet enforces this: a read-only mount of the device node does not stop a process from writing. */
  readonly readOnly: boolean;
  readonly volumeMode: VolumeMode;
}

export interface PodMounts {
  /**
   * Makes targetPath show a staged volume. Throws WrongFilesystem where its staging path shows anything else, the node's own disk perhaps:
   * a pod would write there.
   */
  publish(volume: MountedVolume, targetPath: string, publishing: Publishing): Promise<void>;
  /** Takes it away, with the empty directory or file; no error when there is nothing. */
  unpublish(targetPath: string): Promise<void>;
  /** Whether the path shows what is mounted at stagingPath, or is that path. */
  shows(stagingPath: string, path: string): boolean;
  /** Every path at which it is published. What kubelet binds below those (a container's subPath) is its own. */
  targetsOf(stagingPath: string): string[];
}

const MOUNT = "/usr/bin/mount";
const UMOUNT = "/usr/bin/umount";
const RMDIR = "/usr/bin/rmdir";
const LN = "/usr/bin/ln";
const COMMAND_LIMIT_MS = 30_000;
/** Mounts over each other at one path; more than one only after something went wrong. */
const STACKED_MOUNTS_LIMIT = 8;

export function createBindMounts(commands: CommandPort, files: FilePort): PodMounts {
  return {
    publish: async (volume, targetPath, { readOnly, volumeMode }) => {
      const stagingPath = shownPath(volume);
      const table = readMountTable();
      const [staged, present] = [mountAt(stagingPath, table), mountAt(targetPath, table)];
      if (!shows(staged, volume)) throw notStaged(volume, stagingPath, staged);
      if (present !== undefined && !showsSame(present, staged))
        throw new StorageError("DeviceBusy", `${targetPath} already shows ${present.source}; unmount it by hand`);
      if (present === undefined) {
        assertNoLink(targetPath);
        if (volumeMode === "Block") await files.writeWhole("publish/make-file", targetPath, "");
        else await files.makeDirectory("publish/make-directory", targetPath, 0o750);
        const bound = await commands.run("publish/bind", MOUNT, ["--bind", stagingPath, targetPath], limit());
        expectSuccess(bound, `binding ${stagingPath} to ${targetPath}`);
      }
      if (!readOnly || volumeMode === "Block") return;
      const options = ["--options", "remount,bind,ro", targetPath];
      expectSuccess(await commands.run("publish/read-only", MOUNT, options, limit()), `making ${targetPath} read-only`);
    },
    unpublish: async (targetPath) => {
      for (let mounts = 0; mountAt(targetPath) !== undefined; mounts += 1) {
        if (mounts === STACKED_MOUNTS_LIMIT)
          throw new StorageError("DeviceBusy", `${targetPath} is still mounted after ${mounts} unmounts`);
        const unmounted = await commands.run("unpublish/unmount", UMOUNT, [targetPath], limit());
        expectSuccess(unmounted, `unmounting ${targetPath}`);
      }
      switch (kindOf(targetPath)) {
        case "nothing":
          return;
        case "file":
          return files.remove("unpublish/remove-file", targetPath);
        case "link":
        case "directory":
          return removeDirectory(commands, targetPath);
      }
    },
    shows: (stagingPath, path) => {
      const table = readMountTable();
      const [staged, shown] = [mountAt(stagingPath, table), mountAt(path, table)];
      return staged !== undefined && shown !== undefined && showsSame(shown, staged);
    },
    targetsOf: (stagingPath) => {
      const table = readMountTable();
      const staged = mountAt(stagingPath, table);
      if (staged === undefined) return [];
      const whole = mountsOf(staged.source, table).filter(({ root }) => root === staged.root);
      return [...new Set(whole.map(({ mountPath }) => mountPath))].filter(
        (path) => path !== staged.mountPath && !isKubeletsOwn(path),
      );
    },
  };
}

/** Whether that mount is the volume's: by the kernel alone, without a look into it. */
function shows(staged: Mount | undefined, volume: MountedVolume): boolean {
  if (staged === undefined) return false;
  if (!("fsType" in volume)) return blockDeviceAt(shownPath(volume))?.path === volume.device;
  if (volume.backend !== "span") return isMountOf(staged, volume.device);
  return mountedAnywhere(deviceNameOf(staged.source), volume.fsid)?.endsWith(volume.fsid) === true;
}

function notStaged({ handle }: MountedVolume, stagingPath: string, staged: Mount | undefined): StorageError {
  const what = staged === undefined ? "nothing is mounted" : `${staged.fsType} from ${staged.source} is mounted`;
  return new StorageError(
    "WrongFilesystem",
    `end this node's pods of ${handle}, and kubelet stages it again: ${what} at ${stagingPath}`,
  );
}

/** Bind mounts of devices all have one source, the filesystem of /dev. */
function showsSame(shown: Mount, staged: Mount | undefined): boolean {
  return shown.source === staged?.source && shown.root === staged.root;
}

/** Kubelet binds a published device once more, to plugins/kubernetes.io/csi/volumeDevices/VOLUME/dev/POD. */
function isKubeletsOwn(path: string): boolean {
  return basename(dirname(path)) === "dev";
}

export function createPodLinks(commands: CommandPort, files: FilePort): PodMounts {
  // A link is found by its own path alone: those of an earlier agent are not known.
  const linked = new Map<string, string>();
  return {
    publish: async (volume, targetPath) => {
      const stagingPath = volume.mountPath;
      if (readSimulatedCapacity(stagingPath) === undefined) throw notStaged(volume, stagingPath, undefined);
      if (kindOf(targetPath) === "directory") await removeDirectory(commands, targetPath);
      const made = await commands.run(
        "publish/link",
        LN,
        ["--symbolic", "--force", "--no-dereference", stagingPath, targetPath],
        limit(),
      );
      expectSuccess(made, `linking ${targetPath} to ${stagingPath}`);
      linked.set(targetPath, stagingPath);
    },
    unpublish: async (targetPath) => {
      linked.delete(targetPath);
      switch (kindOf(targetPath)) {
        case "nothing":
          return;
        case "link":
          return files.remove("unpublish/remove-link", targetPath);
        case "directory":
        case "file":
          return removeDirectory(commands, targetPath);
      }
    },
    shows: (stagingPath, path) =>
      path === stagingPath || (kindOf(path) === "link" && readlinkSync(path) === stagingPath),
    targetsOf: (stagingPath) => [...linked].filter(([, staged]) => staged === stagingPath).map(([target]) => target),
  };
}

function kindOf(path: string): "nothing" | "link" | "directory" | "file" {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return "nothing";
  if (found.isSymbolicLink()) return "link";
  // An empty one is a place to bind to. Whatever else is there stays.
  return found.isFile() && found.size === 0 ? "file" : "directory";
}

/** rmdir, never a recursive removal: should a mount still be there, it must fail. */
async function removeDirectory(commands: CommandPort, path: string): Promise<void> {
  const removed = await commands.run("unpublish/remove-directory", RMDIR, [path], limit());
  expectSuccess(removed, `removing the directory ${path}`);
}

function expectSuccess({ exitCode, stderr }: CommandResult, task: string): void {
  if (exitCode !== 0) throw new StorageError("CommandFailed", `${task} ended with ${exitCode}: ${stderr.trim()}`);
}

function limit(): { timeLimitMs: number } {
  return { timeLimitMs: COMMAND_LIMIT_MS };
}
