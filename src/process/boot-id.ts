// Which boot of the machine this is: a monotonic clock begins anew with each, and says nothing about another.
import { readFileSync } from "node:fs";

/** As the kernel has drawn it; the same in all containers of the machine. */
export function readBootID(): string {
  return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
}
