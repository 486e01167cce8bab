// What the embedded control plane was asked, from its own log; and which of it were polls: somebody read the same thing again, in place
// of being told by a watch.
import { readFileSync } from "node:fs";
import { join } from "node:path";

interface LoggedRequest {
  readonly msg: string;
  readonly time: string;
  readonly method: string;
  readonly url: string;
  readonly userAgent: string;
}

/** Whose lease it is, a process asks as long as it lives, and not for a volume. */
const LEASES = "/apis/coordination.k8s.io/";

/** "user agent: URL" of each read after the first, since then. */
export function pollsSince(stackDirectory: string, sinceMs: number): string[] {
  const lines = readFileSync(join(stackDirectory, "standalone.log"), "utf8").split("\n").filter(Boolean);
  const reads = lines
    .map((line) => JSON.parse(line) as LoggedRequest)
    .filter(({ msg, method, url }) => msg === "request" && method === "GET" && !url.startsWith(LEASES))
    .filter(({ url, time }) => !url.includes("watch=") && Date.parse(time) >= sinceMs)
    .map(({ userAgent, url }) => `${userAgent}: ${url}`);
  return reads.filter((read, index) => reads.indexOf(read) < index);
}
