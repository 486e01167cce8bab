// Writing answers: JSON with the right headers, refusals as Status objects.
import type { ServerResponse } from "node:http";
import { ApiError } from "./api-error.ts";
import { JSON_TYPE } from "./media-type.ts";

export function sendJson(response: ServerResponse, code: number, text: string, warnings: readonly string[] = []): void {
  const headers: Record<string, string | string[]> = {
    "content-type": JSON_TYPE,
    "cache-control": "no-cache, private",
  };
  if (warnings.length > 0) headers["warning"] = warnings.map((warning) => `299 - ${JSON.stringify(warning)}`);
  response.writeHead(code, { ...headers, "content-length": Buffer.byteLength(text) });
  response.end(text);
}

export function sendText(response: ServerResponse, code: number, text: string): void {
  response.writeHead(code, { "content-type": "text/plain; charset=utf-8" });
  response.end(text);
}

/** Answers a refusal; anything but an ApiError is a fault of the server itself. */
export function sendError(response: ServerResponse, error: unknown): void {
  const refusal =
    error instanceof ApiError
      ? error
      : new ApiError(500, "InternalError", `Internal error occurred: ${(error as Error).message}`);
  if (response.headersSent) {
    response.destroy();
    return;
  }
  sendJson(response, refusal.code, JSON.stringify(refusal.toStatus()));
}
