// Reads the bodies of a server's requests, whole or refused: one is never larger than a limit, nor are all that are being read together. What
// is refused is read on and dropped, since an answer to somebody who still sends gets lost.
import type { IncomingMessage } from "node:http";
import { formatBytes } from "../units/quantity.ts";

export interface BodyLimits {
  /** Of one body. */
  readonly bodyBytes: number;
  /** Of all bodies that are being read: whoever reaches the port must not fill our memory. */
  readonly allBytes: number;
}

/** `status`: 413, the body is over its limit; 503, too much is being sent at once. */
export class BodyRefused extends Error {
  override name = "BodyRefused";
  readonly status: 413 | 503;
  constructor(status: 413 | 503, message: string) {
    super(message);
    this.status = status;
  }
}

/** Throws BodyRefused; rejects when the connection breaks. How long a sender may take is the server's requestTimeout. */
export type BodyReader = (request: IncomingMessage) => Promise<Buffer>;

export function createBodyReader({ bodyBytes, allBytes }: BodyLimits): BodyReader {
  let keptBytes = 0;
  return async (request) => {
    // Made when one is refused: an error costs as much as the rest of a short request.
    const tooLarge = () => new BodyRefused(413, `a request's body is limited to ${formatBytes(bodyBytes)}`);
    let chunks: Buffer[] = [];
    let ownBytes = 0;
    let refused = Number(request.headers["content-length"] ?? 0) > bodyBytes ? tooLarge() : undefined;
    try {
      for await (const chunk of request as AsyncIterable<Buffer>) {
        if (refused !== undefined) continue;
        ownBytes += chunk.length;
        keptBytes += chunk.length;
        chunks.push(chunk);
        if (ownBytes > bodyBytes) refused = tooLarge();
        else if (keptBytes > allBytes) refused = new BodyRefused(503, "too much is being sent at once; send it again");
        if (refused === undefined) continue;
        chunks = [];
        keptBytes -= ownBytes;
        ownBytes = 0;
      }
    } finally {
      keptBytes -= ownBytes;
    }
    if (refused !== undefined) throw refused;
    return Buffer.concat(chunks);
  };
}
