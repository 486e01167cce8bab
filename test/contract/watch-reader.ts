// A watch as a case reads it: event by event, each awaited with a generous limit.

import { eventually } from "../harness/wait-for.ts";
import type { WatchEvent } from "./answer-body.ts";

const LOOK_INTERVAL_MS = 5;

export class WatchReader {
  readonly #abort = new AbortController();
  readonly #events: WatchEvent[] = [];
  #ended = false;
  #rest = "";

  /** Resolves when the server has begun to answer. */
  static async open(url: string, accept = "application/json"): Promise<WatchReader> {
    const reader = new WatchReader();
    const response = await fetch(url, { headers: { accept }, signal: reader.#abort.signal });
    if (response.status !== 200)
      throw new Error(`the watch was answered with ${response.status}: ${await response.text()}`);
    void reader.#read(response.body as ReadableStream<Uint8Array>);
    return reader;
  }

  async next(): Promise<WatchEvent> {
    const hasCome = (): boolean => this.#events.length > 0 || this.#ended;
    await eventually("an event of the watch", hasCome, { intervalMs: LOOK_INTERVAL_MS });
    const event = this.#events.shift();
    if (event === undefined) throw new Error("the watch has ended");
    return event;
  }

  /** The next events as "TYPE name". */
  async summaries(count: number): Promise<string[]> {
    const summaries: string[] = [];
    while (summaries.length < count) {
      const { type, object } = await this.next();
      if (type !== "BOOKMARK")
        summaries.push(`${type} ${object.kind === "Status" ? object.reason : object.metadata.name}`);
    }
    return summaries;
  }

  /** Every event until the server ends the watch. */
  async rest(): Promise<WatchEvent[]> {
    const events: WatchEvent[] = [];
    for (;;) {
      try {
        events.push(await this.next());
      } catch (error) {
        if (this.#ended) return events;
        throw error;
      }
    }
  }

  close(): void {
    this.#abort.abort();
  }

  async #read(body: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    try {
      for await (const chunk of body) this.#take(decoder.decode(chunk, { stream: true }));
    } catch {
      // Aborted by close(), or cut by the server: either way there is nothing more to read.
    }
    this.#ended = true;
  }

  #take(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    this.#events.push(...lines.filter((line) => line !== "").map((line) => JSON.parse(line) as WatchEvent));
  }
}
