// Tells a program on this machine from a web page in a browser on it, which reaches loopback, too. Programs send no Origin, and a
// page that had its name pointed here (DNS rebinding) gives itself away by the Host.
import type { IncomingMessage } from "node:http";

const LOOPBACK_NAMES = ["127.0.0.1", "localhost", "[::1]"];

/** Why a request that came over loopback is a web page's, as a message; undefined: a program on this machine made it. */
export function webPageRefusal({ headers }: Pick<IncomingMessage, "headers">): string | undefined {
  const name = (headers.host ?? "").replace(/:\d+$/, "");
  if (headers.origin === undefined && LOOPBACK_NAMES.includes(name)) return undefined;
  const sender = headers.origin === undefined ? `for the host "${name}"` : `from the page ${headers.origin}`;
  return `a request ${sender} is refused: this is for programs on this machine only`;
}
