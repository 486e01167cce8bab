// Loop devices outlive processes and mount namespaces. Those of a cluster are found by the file behind them, or by the device
// behind them (kubelet puts one over a raw block volume): by inode, since the path that the kernel tells is the node's own.
import { existsSync, statSync } from "node:fs";
import { basename } from "node:path";
import { runProgram } from "./run-program.ts";

interface LoopDevice {
  readonly name: string;
  readonly "back-ino": number | string;
  readonly "back-maj:min": string;
}

/** Those whose data is under the directory, each before the one that it lies on: the order in which they can be detached. */
export async function loopDevicesOn(directory: string): Promise<string[]> {
  const listed = await runProgram("losetup", ["--list", "--json", "--output", "NAME,BACK-INO,BACK-MAJ:MIN"]);
  const all = listed === "" ? [] : (JSON.parse(listed) as { loopdevices: LoopDevice[] }).loopdevices;
  const onSameDisk = all.filter((device) => device["back-maj:min"].trim() === deviceNumber(directory));
  const files = await inodesUnder(directory, onSameDisk.map(inodeOf));
  let found = onSameDisk.filter((device) => files.has(inodeOf(device)));
  const order: LoopDevice[] = [];
  while (found.length > 0) {
    order.unshift(...found);
    found = all.filter((device) => !order.includes(device) && found.some((below) => liesOn(device, below)));
  }
  return order.map(({ name }) => name);
}

export async function detachLoopDevices(directory: string): Promise<void> {
  for (const device of await loopDevicesOn(directory))
    await runProgram("losetup", ["--detach", device]).catch((error: unknown) => {
      // One that was detached in use has gone with the last that lay on it.
      if (existsSync(`/sys/block/${basename(device)}/loop`)) throw error;
    });
}

function liesOn(device: LoopDevice, below: LoopDevice): boolean {
  return (
    device["back-maj:min"].trim() === deviceNumber(below.name) && inodeOf(device) === `${statSync(below.name).ino}`
  );
}

function inodeOf(device: LoopDevice): string {
  return `${device["back-ino"]}`;
}

/** Of the filesystem that holds the path, as losetup writes it; how a number is put together is in makedev(3). */
function deviceNumber(path: string): string {
  const { dev } = statSync(path, { bigint: true });
  const major = (dev >> 8n) & 0xfffn;
  const minor = (dev & 0xffn) | ((dev >> 12n) & 0xfff00n);
  return `${major}:${minor}`;
}

async function inodesUnder(directory: string, inodes: readonly string[]): Promise<Set<string>> {
  if (inodes.length === 0) return new Set();
  const tests = inodes.flatMap((inode) => ["-o", "-inum", inode]).slice(1);
  const found = await runProgram("find", [directory, "-xdev", "(", ...tests, ")", "-printf", "%i\\n"]);
  return new Set(found.trim().split("\n"));
}
