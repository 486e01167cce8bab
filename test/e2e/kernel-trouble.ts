// What the kernel has said against the devices of some btrfs since a moment: lines of its log that tell of lost or failed reads and
// writes. The log is the whole machine's, and so are names of devices: one that somebody else has got meanwhile is left out.
import { readdirSync } from "node:fs";
import { runProgram } from "../cluster/run-program.ts";

const TROUBLE = /I\/O error|lost page write|BTRFS (error|critical|warning)|forced readonly|EXT4-fs error/;
const ATTACHED = /\b(loop\d+): detected capacity change from 0 to/;
const SCANNED = /BTRFS: device fsid ([0-9a-f-]{36}) .*\/dev\/(loop\d+)/;
const MOUNTED = /BTRFS info \(device (loop\d+).*mount of filesystem ([0-9a-f-]{36})/;

async function lines(): Promise<string[]> {
  return (await runProgram("dmesg", [])).trimEnd().split("\n");
}

export const kernelTrouble = {
  /** The last line of now. */
  mark: async (): Promise<string> => (await lines()).at(-1) ?? "",
  /** Lines after the mark that name a device, such as "loop3", while it is one of these filesystems'; `devices` are at the mark. */
  since: async (mark: string, devices: readonly string[], fsids: readonly string[]): Promise<string[]> => {
    const all = await lines();
    return troubleIn(all.slice(all.lastIndexOf(mark) + 1), devices, fsids);
  },
  /** Of a filesystem that is mounted. */
  devicesOf: (fsid: string): string[] => readdirSync(`/sys/fs/btrfs/${fsid}/devices`),
};

/** Pure, so that it can be tried on what a kernel has said. */
export function troubleIn(said: readonly string[], devices: readonly string[], fsids: readonly string[]): string[] {
  const own = new Set(devices);
  const belongs = (device: string | undefined, isOwn: boolean): void => {
    if (device !== undefined) own[isOwn ? "add" : "delete"](device);
  };
  return said.filter((line) => {
    belongs(ATTACHED.exec(line)?.[1], false);
    const [, scannedFsid = "", scanned] = SCANNED.exec(line) ?? [];
    belongs(scanned, fsids.includes(scannedFsid));
    const [, mounted, mountedFsid = ""] = MOUNTED.exec(line) ?? [];
    belongs(mounted, fsids.includes(mountedFsid));
    return TROUBLE.test(line) && (line.match(/\bloop\d+\b/g) ?? []).some((name) => own.has(name));
  });
}
