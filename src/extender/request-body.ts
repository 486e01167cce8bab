// The body of a request, whole or refused: never more than a limit is read, and one that ends early is an error.
import type { IncomingMessage } from "node:http";

/** What a scheduler sends at most that sends its nodes whole: 5,000 of 10 KiB each. Of larger bodies nothing is kept. */
export const BODY_LIMIT_BYTES = 64 * 1024 ** 2;

export class BodyTooLargeError extends Error {
  override name = "BodyTooLargeError";

  constructor() {
    super(
      `a request's body is limited to ${BODY_LIMIT_BYTES / 1024 ** 2} MiB; does the scheduler send nodes by name (nodeCacheCapable: true)?`,
    );
  }
}

/** The connection broke, or was given up, in the middle of a body. */
export class BodyEndedError extends Error {
  override name = "BodyEndedError";
}

/**
 * Rejects with BodyTooLargeError or BodyEndedError. What is over the limit is read to its end and thrown away, within the server's time
 * limit of a request: whoever is still sending would not see an answer.
 */
export function readBody(request: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    let chunks: Buffer[] = [];
    let sizeBytes = 0;
    request.on("data", (chunk: Buffer) => {
      sizeBytes += chunk.length;
      if (sizeBytes <= BODY_LIMIT_BYTES) chunks.push(chunk);
      else chunks = [];
    });
    request.on("end", () => {
      if (sizeBytes > BODY_LIMIT_BYTES) reject(new BodyTooLargeError());
      else resolve(Buffer.concat(chunks).toString("utf8"));
    });
    const ended = (): void => reject(new BodyEndedError(`the request ended after ${sizeBytes} bytes of its body`));
    request.on("error", ended);
    request.on("close", ended);
  });
}
