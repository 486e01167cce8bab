// Keeps web pages out: a browser on this machine reaches loopback, too, and there is no authentication. Programs send no
// Origin, and a page that had its name pointed here (DNS rebinding) gives itself away by the Host.
import type { IncomingMessage } from "node:http";
import { ApiError } from "./api-error.ts";

const LOOPBACK_NAMES = ["127.0.0.1", "localhost"];

/** Throws 403 for a request that a web page makes. */
export function refuseWebPages({ headers }: IncomingMessage): void {
  const name = (headers.host ?? "").replace(/:\d+$/, "");
  if (headers.origin === undefined && LOOPBACK_NAMES.includes(name)) return;
  const sender = headers.origin === undefined ? `for the host "${name}"` : `from the page ${headers.origin}`;
  throw new ApiError(403, "Forbidden", `a request ${sender} is refused: this API is for programs on this machine only`);
}
