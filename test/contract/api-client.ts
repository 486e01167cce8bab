// The API as raw HTTP, for cases that look at codes, headers and bodies. It adds nothing that a case does not ask for.

import type { AnswerBody } from "./answer-body.ts";

/** What a case sends. */
export type Json = Record<string, unknown>;

export interface Answer {
  readonly code: number;
  readonly headers: Headers;
  readonly body: AnswerBody;
}

export interface RequestOptions {
  readonly contentType?: string;
  readonly accept?: string;
  readonly userAgent?: string;
}

export const APPLY = "application/apply-patch+yaml";
export const MERGE = "application/merge-patch+json";
export const JSON_PATCH = "application/json-patch+json";
export const STRATEGIC = "application/strategic-merge-patch+json";
export const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";

export class ApiClient {
  readonly baseUrl: string;

  constructor(baseUrl: string) {
    this.baseUrl = baseUrl;
  }

  get(path: string, options: RequestOptions = {}): Promise<Answer> {
    return this.send("GET", path, undefined, options);
  }

  post(path: string, body: unknown, options: RequestOptions = {}): Promise<Answer> {
    return this.send("POST", path, body, options);
  }

  put(path: string, body: unknown, options: RequestOptions = {}): Promise<Answer> {
    return this.send("PUT", path, body, options);
  }

  patch(path: string, contentType: string, body: unknown): Promise<Answer> {
    return this.send("PATCH", path, body, { contentType });
  }

  delete(path: string, body?: unknown): Promise<Answer> {
    return this.send("DELETE", path, body, {});
  }

  /** Server-side apply by a manager. */
  apply(path: string, manager: string, configuration: Json, force = false): Promise<Answer> {
    const query = `fieldManager=${manager}${force ? "&force=true" : ""}`;
    return this.patch(`${path}?${query}`, APPLY, configuration);
  }

  async send(method: string, path: string, body: unknown, options: RequestOptions): Promise<Answer> {
    const headers: Record<string, string> = { accept: options.accept ?? "application/json" };
    if (body !== undefined) headers["content-type"] = options.contentType ?? "application/json";
    if (options.userAgent !== undefined) headers["user-agent"] = options.userAgent;
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const response = await fetch(`${this.baseUrl}${path}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body: text }),
    });
    const answer = await response.text();
    // Whatever type it claims: kube-apiserver serves the index of its schemas as text/plain.
    const isJson = answer.startsWith("{");
    return {
      code: response.status,
      headers: response.headers,
      body: (isJson ? JSON.parse(answer) : { text: answer }) as AnswerBody,
    };
  }
}
