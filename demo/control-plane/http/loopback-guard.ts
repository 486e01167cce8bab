// Keeps web pages out: a browser on this machine reaches loopback, too, and is its user's.
import type { IncomingMessage } from "node:http";
import { webPageRefusal } from "../../../src/platform/process/metrics/metrics-server.ts";
import { ApiError } from "./api-error.ts";

/** Throws 403 for a request that a web page makes. */
export function refuseWebPages(request: IncomingMessage): void {
  const refusal = webPageRefusal(request);
  if (refusal !== undefined) throw new ApiError(403, "Forbidden", refusal);
}
