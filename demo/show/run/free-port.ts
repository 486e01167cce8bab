// A port on loopback for a process that starts later, and perhaps more than once. It lies below those that the kernel hands out by itself
// (to connections, and to listeners on port 0), so that no other process gets it while this one is down.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";

/** Above 10080, the highest port that fetch refuses to connect to (WHATWG Fetch, "port blocking"). */
const LOWEST_PORT = 10_100;
const ATTEMPTS_LIMIT = 100;
const given = new Set<number>();

/** It has no listener now, and this process has not been given it before. */
export async function freePort(): Promise<number> {
  const beyond = firstPortOfKernel();
  for (let attempt = 0; attempt < ATTEMPTS_LIMIT; attempt += 1) {
    const port = LOWEST_PORT + Math.floor(Math.random() * (beyond - LOWEST_PORT));
    if (given.has(port) || !(await isFree(port))) continue;
    given.add(port);
    return port;
  }
  throw new Error(`no free port from ${LOWEST_PORT} to ${beyond - 1} in ${ATTEMPTS_LIMIT} attempts; see ss -lnt`);
}

function firstPortOfKernel(): number {
  return Number.parseInt(readFileSync("/proc/sys/net/ipv4/ip_local_port_range", "utf8"), 10);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(port, "127.0.0.1"), "listening");
    server.close();
    await once(server, "close");
    return true;
  } catch {
    return false;
  }
}
