// What the embedded control plane was asked, from its own log; and which of it were polls: a process read an object of one volume over
// and over, in place of being told of it by a watch.
import { readFileSync } from "node:fs";
import { join } from "node:path";

interface LoggedRequest {
  readonly msg: string;
  readonly time: string;
  readonly method: string;
  readonly url: string;
  readonly userAgent: string;
}

/** Before it is made and when it is there. */
const LIVE_READS = 2;
/** Of objects that are one volume's: they are named by its UID. */
const OF_A_VOLUME = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/;
/** What stands in for csi-provisioner and kubelet, and this benchmark. */
const STAND_INS = "tidemark";

/** "user agent: URL" of each read after those, since then. */
export function pollsSince(stackDirectory: string, sinceMs: number): string[] {
  const lines = readFileSync(join(stackDirectory, "standalone.log"), "utf8").split("\n").filter(Boolean);
  const reads = lines
    .map((line) => JSON.parse(line) as LoggedRequest)
    .filter(({ msg, method, time }) => msg === "request" && method === "GET" && Date.parse(time) >= sinceMs)
    .filter(({ userAgent, url }) => userAgent !== STAND_INS && !url.includes("watch=") && OF_A_VOLUME.test(url))
    .map(({ userAgent, url }) => `${userAgent}: ${url}`);
  const counts = new Map<string, number>();
  return reads.filter((read) => {
    const count = (counts.get(read) ?? 0) + 1;
    counts.set(read, count);
    return count > LIVE_READS;
  });
}
