// What the kernel has said against some block devices since a moment: lines of its log that tell of lost or failed reads and writes.
// The log is the whole machine's, so lines of other devices are left out.
import { readdirSync } from "node:fs";
import { runProgram } from "../cluster/run-program.ts";

const TROUBLE = /I\/O error|lost page write|BTRFS (error|critical|warning)|forced readonly|EXT4-fs error/;

async function lines(): Promise<string[]> {
  return (await runProgram("dmesg", [])).trimEnd().split("\n");
}

export const kernelTrouble = {
  /** The last line of now. */
  mark: async (): Promise<string> => (await lines()).at(-1) ?? "",
  /** Lines after the mark that name one of the devices, such as "loop3". */
  since: async (mark: string, devices: readonly string[]): Promise<string[]> => {
    const all = await lines();
    const names = new RegExp(`\\b(${devices.join("|")})\\b`);
    return all.slice(all.lastIndexOf(mark) + 1).filter((line) => TROUBLE.test(line) && names.test(line));
  },
  /** Of a filesystem that is mounted. */
  devicesOf: (fsid: string): string[] => readdirSync(`/sys/fs/btrfs/${fsid}/devices`),
};
