// The body of a request, whole or refused: never more than a limit is read, and one that ends early is an error.
import type { IncomingMessage } from "node:http";

/** What a scheduler sends at most that sends its nodes whole: 5,000 of 10 KiB each. Larger bodies are refused unread. */
export const BODY_LIMIT_BYTES = 64 * 1024 ** 2;

export class BodyTooLargeError extends Error {
  override name = "BodyTooLargeError";

  constructor() {
    super(
      `a request's body is limited to ${BODY_LIMIT_BYTES / 1024 ** 2} MiB; does the scheduler send nodes by name (nodeCacheCapable: true)?`,
    );
  }
}

/** Throws BodyTooLargeError; rejects when the connection breaks. */
export async function readBody(request: IncomingMessage): Promise<string> {
  if (Number(request.headers["content-length"] ?? 0) > BODY_LIMIT_BYTES) throw new BodyTooLargeError();
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length;
    if (sizeBytes > BODY_LIMIT_BYTES) throw new BodyTooLargeError();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}
