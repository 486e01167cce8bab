// A TCP address in a flag, and whether it stays on this machine.
import { BlockList, isIP, isIPv6 } from "node:net";

export interface Address {
  /** A name or an IP address, without brackets. */
  readonly host: string;
  readonly port: number;
}

const PORT_LIMIT = 65_535;

/** "host:port" or "[IPv6]:port". Throws with a sentence that names the flag. */
export function addressFlag(flag: string, text: string): Address {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || port > PORT_LIMIT || (match?.[1] !== undefined && !isIPv6(host)))
    throw new Error(`--${flag} ${text} is no host:port (an IPv6 address stands in brackets)`);
  return { host, port };
}

export function formatAddress({ host, port }: Address): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`;
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");

/** True where nobody outside this machine can connect to, or answer. A name other than "localhost" may lead anywhere. */
export function isLoopback(host: string): boolean {
  const family = isIP(host);
  return family === 0 ? host === "localhost" : LOOPBACK.check(host, family === 6 ? "ipv6" : "ipv4");
}
