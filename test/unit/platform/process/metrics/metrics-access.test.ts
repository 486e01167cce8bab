import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { pino } from "pino";
import {
  ALLOWED_AGE_LIMIT_MS,
  ANSWER_LIMIT_MS,
  type AskAccess,
  createMetricsAccess,
  QUESTIONS_LIMIT,
  READERS_LIMIT,
  REFUSALS_LIMIT,
  REFUSED_AGE_LIMIT_MS,
  UNKNOWN_TOKENS,
} from "../../../../../src/platform/process/metrics/secured-metrics.ts";
import { type AccessReviewer, createAccessReviewer } from "../../../../fakes/access-reviewer.ts";

const READER = "prometheus/1";
const OTHER_ADDRESS = "10.0.0.9";

let api: AccessReviewer;
let monotonicMs: number;
let access: AskAccess;

const create = (audience?: string): AskAccess =>
  createMetricsAccess({
    client: api,
    audience,
    clock: { monotonicMs: () => monotonicMs },
    log: pino({ level: "silent" }),
  });
const show = (token: string, address = "10.0.0.1") => access({ authorization: `Bearer ${token}`, address });
/** Each from an address of its own, one after the other. */
const flood = async (count: number): Promise<void> => {
  for (let at = 0; at < count; at += 1) await show(`bad/${at}`, `10.1.${at >> 8}.${at & 255}`);
};

beforeEach(() => {
  api = createAccessReviewer();
  api.allow("prometheus");
  monotonicMs = 1000;
  access = create();
});

describe("who may read metrics", () => {
  it("is whose token the API server accepts, and who has the right there", async () => {
    expect(await show(READER)).toBe("allowed");
    expect(await show("tenant/1")).toEqual({ status: 403, reason: expect.stringContaining("tenant") });
    expect(await show("bad/1")).toMatchObject({ status: 401 });
  });

  it.each([undefined, "", "Basic abc", "Bearer ", `Bearer ${"x".repeat(20_000)}`])(
    "is not who shows no token, about which nothing is asked: %s",
    async (authorization) => {
      expect(await access({ authorization, address: "10.0.0.1" })).toMatchObject({ status: 401 });
      expect(api.asked()).toBe(0);
    },
  );

  it("is not whose token is for another audience than the one that was set", async () => {
    access = create("tidemark-metrics");
    expect(await show(READER)).toBe("allowed");
    access = create("unknown");
    expect(await show(READER)).toMatchObject({ status: 401 });
  });

  it("is no one while the API server is away, but for who was let in just before", async () => {
    expect(await show(READER)).toBe("allowed");
    api.become("away");
    expect(await show("prometheus/2")).toMatchObject({ status: 503 });
    expect(await show(READER)).toBe("allowed");
    monotonicMs += ALLOWED_AGE_LIMIT_MS;
    expect(await show(READER)).toMatchObject({ status: 503 });
    api.become("answering");
    expect(await show(READER)).toBe("allowed");
  });
});

describe("an answer", () => {
  it("is remembered for a while, and asked for again after it", async () => {
    await show(READER);
    monotonicMs += ALLOWED_AGE_LIMIT_MS - 1;
    expect(await show(READER)).toBe("allowed");
    expect(api.asked()).toBe(2);
    api.forbid("prometheus");
    monotonicMs += 1;
    expect(await show(READER)).toMatchObject({ status: 403 });
    api.allow("prometheus");
    monotonicMs += REFUSED_AGE_LIMIT_MS - 1;
    expect(await show(READER)).toMatchObject({ status: 403 });
    monotonicMs += 1;
    expect(await show(READER)).toBe("allowed");
  });

  it("that was a refusal is forgotten where there are many, one that let somebody in is not", async () => {
    await show(READER);
    await show("bad/first");
    await flood(REFUSALS_LIMIT);
    const before = api.asked();
    expect(await show(READER)).toBe("allowed");
    expect(api.asked()).toBe(before);
    await show("bad/first", OTHER_ADDRESS);
    expect(api.asked()).toBe(before + 1);
  });

  it("that let somebody in is forgotten where more are let in than there are limits for", async () => {
    for (let at = 0; at <= READERS_LIMIT; at += 1) await show(`prometheus/${at}`, `10.2.0.${at}`);
    const before = api.asked();
    expect(await show(`prometheus/${READERS_LIMIT}`)).toBe("allowed");
    expect(api.asked()).toBe(before);
    expect(await show("prometheus/0", OTHER_ADDRESS)).toBe("allowed");
    expect(api.asked()).toBe(before + 2);
  });
});

describe("many tokens at once", () => {
  it("are one question where they are the same", async () => {
    const answers = await Promise.all(Array.from({ length: 50 }, () => show(READER)));
    expect(new Set(answers)).toEqual(new Set(["allowed"]));
    expect(api.asked()).toBe(2);
  });

  it("of one address are asked about ten times, and then once a second; another address is heard", async () => {
    for (let at = 0; at < 100; at += 1) await show(`bad/${at}`);
    expect(api.asked()).toBe(UNKNOWN_TOKENS.burst);
    expect(await show("bad/later")).toMatchObject({ status: 503 });
    expect(await show(READER, OTHER_ADDRESS)).toBe("allowed");
    monotonicMs += UNKNOWN_TOKENS.intervalMs;
    expect(await show("bad/later")).toMatchObject({ status: 401 });
  });

  it("of many addresses are a few questions at a time, and do not keep out who was let in before", async () => {
    expect(await show(READER)).toBe("allowed");
    monotonicMs += ALLOWED_AGE_LIMIT_MS;
    api.become("silent");
    const strangers = Array.from({ length: 200 }, (_, at) => show(`bad/${at}`, `10.3.0.${at}`));
    const reader = show(READER);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(api.most()).toBe(QUESTIONS_LIMIT + 1);
    api.become("answering");
    expect(await reader).toBe("allowed");
    const statuses = (await Promise.all(strangers)).map((answer) => (answer === "allowed" ? 200 : answer.status));
    expect(statuses.filter((status) => status === 401)).toHaveLength(QUESTIONS_LIMIT);
    expect(statuses.filter((status) => status === 503)).toHaveLength(200 - QUESTIONS_LIMIT);
  });
});

describe("an API server that does not answer", () => {
  beforeEach(() => void jest.useFakeTimers({ doNotFake: ["setImmediate", "nextTick"] }));
  afterEach(() => void jest.useRealTimers());

  it("is waited for a few seconds; what it says later is remembered", async () => {
    api.become("silent");
    const asking = show(READER);
    await new Promise((resolve) => setImmediate(resolve));
    jest.advanceTimersByTime(ANSWER_LIMIT_MS);
    expect(await asking).toMatchObject({ status: 503 });
    api.become("answering");
    for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    const before = api.asked();
    expect(await show(READER)).toBe("allowed");
    expect(api.asked()).toBe(before);
  });
});
