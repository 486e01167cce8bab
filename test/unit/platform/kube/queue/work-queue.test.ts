import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { KubeError } from "../../../../../src/platform/kube/kube-error.ts";
import {
  createWorkQueue,
  type Outcome,
  TerminalError,
  type WorkQueue,
} from "../../../../../src/platform/kube/queue/work-queue.ts";
import { createRecordingLog, ERROR_LEVEL, type LogLine, WARN_LEVEL } from "../../../../fakes/recording-log.ts";

let queue: WorkQueue;
let runs: string[];
let lines: LogLine[];
let terminal: string[];
let ends: string[];

beforeEach(() => {
  jest.useFakeTimers();
  jest.spyOn(Math, "random").mockReturnValue(0.999);
});

afterEach(() => {
  jest.useRealTimers();
  jest.restoreAllMocks();
});

/** `run` gets the key and how often the key has run before. */
function start(run: (key: string, before: number) => Promise<Outcome>, concurrency = 4): void {
  const recording = createRecordingLog();
  lines = recording.lines;
  runs = [];
  terminal = [];
  ends = [];
  queue = createWorkQueue({
    name: "layouts",
    concurrency,
    log: recording.log,
    backOff: { baseMs: 1000, capMs: 8000 },
    onTerminal: (key, error) => void terminal.push(`${key}: ${error.message}`),
    observer: { ran: (_durationMs, end) => void ends.push(end) },
    run: (key) => {
      const before = runs.filter((other) => other === key).length;
      runs.push(key);
      return run(key, before);
    },
  });
}

const pass = (durationMs: number) => jest.advanceTimersByTimeAsync(durationMs);
const later = (durationMs: number) => new Promise<void>((resolve) => setTimeout(resolve, durationMs));
const done = async (): Promise<Outcome> => "done";

describe("running", () => {
  it("runs keys in the order in which they came, each once however often it was added", async () => {
    start(done, 1);
    for (const key of ["a", "b", "a", "c", "b"]) queue.add(key);
    expect(queue.depth()).toBeGreaterThan(0);
    await pass(10);
    expect(runs).toEqual(["a", "b", "c"]);
    expect(queue.depth()).toBe(0);
  });

  it("never runs one key twice at a time, nor more keys than its concurrency, with 1,000 keys added at random", async () => {
    const running = new Set<string>();
    let overlaps = 0;
    let widest = 0;
    jest.restoreAllMocks();
    start(async (key) => {
      if (running.has(key)) overlaps += 1;
      running.add(key);
      widest = Math.max(widest, running.size);
      await later(Math.random() * 20);
      running.delete(key);
      if (Math.random() < 0.1) throw new Error("now and then");
      return "done";
    }, 8);
    const addedAt = new Map<string, number>();
    for (let i = 0; i < 10_000; i += 1) {
      const key = `key-${Math.floor(Math.random() * 1000)}`;
      addedAt.set(key, runs.length);
      queue.add(key);
      if (i % 100 === 0) await pass(10);
    }
    await pass(60_000);
    expect([overlaps, widest, running.size]).toEqual([0, 8, 0]);
    // Nothing is lost: each key began a run after it was last added.
    for (const [key, position] of addedAt) expect(runs.lastIndexOf(key)).toBeGreaterThanOrEqual(position);
  });

  it("runs a key once more when it is added during its run, by others or by the run itself", async () => {
    start(async (key, before) => {
      if (key === "self" && before === 0) queue.add(key);
      await later(100);
      return "done";
    });
    queue.add("self");
    queue.add("other");
    await pass(50);
    queue.add("other");
    queue.add("other");
    expect(runs).toEqual(["self", "other"]);
    await pass(1000);
    expect(runs).toEqual(["self", "other", "self", "other"]);
  });

  it("counts no waiting as failure: again after a while, without a log line", async () => {
    start(async (_key, before) => (before < 2 ? { againAfterMs: 5000 } : "done"));
    queue.add("a");
    await pass(4999);
    expect(runs).toHaveLength(1);
    await pass(20_000);
    expect(runs).toHaveLength(3);
    expect([lines, ends]).toEqual([[], ["again", "again", "done"]]);
  });
});

describe("delays", () => {
  it("keeps the earliest of several times", async () => {
    start(done);
    queue.addAfter("a", 5000);
    queue.addAfter("a", 1000);
    queue.addAfter("a", 9000);
    await pass(999);
    expect(runs).toEqual([]);
    await pass(60_000);
    expect(runs).toEqual(["a"]);
  });

  it("lets an addition replace a time that the key waits for", async () => {
    start(done);
    queue.addAfter("a", 5000);
    queue.add("a");
    await pass(60_000);
    expect(runs).toEqual(["a"]);
  });
});

describe("failures", () => {
  it("are tried again, ever later up to the cap, and logged with object, count and wait", async () => {
    const startedMs: number[] = [];
    start(async () => {
      startedMs.push(performance.now());
      throw new Error("the disk is away");
    });
    queue.add("shop/a");
    await pass(60_000);
    const waits = startedMs.slice(1, 7).map((ms, i) => Math.round((ms - (startedMs[i] ?? 0)) / 1000));
    expect(waits).toEqual([1, 2, 4, 8, 8, 8]);
    expect(lines[1]).toMatchObject({ level: WARN_LEVEL, queue: "layouts", key: "shop/a", failures: 2 });
  });

  it("are forgotten after a run that went well", async () => {
    start(async (_key, before) => {
      if (before !== 2) throw new Error("no");
      return { againAfterMs: 10 };
    });
    queue.add("a");
    await pass(3500);
    expect(lines.map(({ failures }) => failures)).toEqual([1, 2, 1]);
  });

  it("wait at least as long as the API server asked for", async () => {
    start(async (_key, before) => {
      if (before === 0) throw new KubeError("TooManyRequests", 429, "slow down", { retryAfterMs: 7000 });
      return "done";
    });
    queue.add("a");
    await pass(6900);
    expect(runs).toHaveLength(1);
    await pass(200);
    expect(runs).toHaveLength(2);
  });

  it("do not make a hot loop of a run that adds its own key and fails", async () => {
    start(async (key, before) => {
      if (before < 100) queue.add(key); // a hot loop would never let the test go on
      throw new Error("no");
    });
    queue.add("a");
    await pass(10_000);
    expect(runs.length).toBeGreaterThan(5);
    expect(runs.length).toBeLessThan(20);
  });

  it("of one key do not hold up others", async () => {
    start(async (key) => {
      if (key === "bad") throw new Error("no");
      return "done";
    }, 1);
    queue.add("bad");
    queue.add("good");
    await pass(10);
    expect(runs).toEqual(["bad", "good"]);
  });

  it("that are terminal are reported once and never tried again, until the key is added again", async () => {
    start(async () => {
      throw new TerminalError("an unknown backend");
    });
    queue.add("a");
    await pass(3_600_000);
    expect([runs, terminal]).toEqual([["a"], ["a: an unknown backend"]]);
    expect(lines.map(({ level }) => level)).toEqual([ERROR_LEVEL]);
    queue.add("a");
    await pass(10);
    expect(runs).toEqual(["a", "a"]);
  });
});

describe("stopping", () => {
  it("waits for the runs under way and starts no others", async () => {
    let finished = 0;
    start(async () => {
      await later(500);
      finished += 1;
      throw new Error("and would be tried again");
    }, 2);
    for (const key of ["a", "b", "c"]) queue.add(key);
    queue.addAfter("d", 100);
    await pass(10);
    let stopped = false;
    const stopping = queue.stop().then(() => {
      stopped = true;
    });
    await pass(400);
    expect([stopped, finished]).toEqual([false, 0]);
    await pass(60_000);
    await stopping;
    expect([stopped, finished, runs]).toEqual([true, 2, ["a", "b"]]);
    queue.add("e");
    await pass(1000);
    expect(runs).toEqual(["a", "b"]);
  });
});
