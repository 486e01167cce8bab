// Feeds a target with inputs that follow from a seed: seeds first, then what mutations make of them and of inputs that got a new answer. It
// ends at the first crash, wrong acceptance, long wait or changed prototype, with the smallest input that it finds for it.
import { AssertionError } from "node:assert";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Corpus } from "./corpus.ts";
import { Random } from "./random.ts";
import { smallest } from "./smallest.ts";
import type { FuzzTarget, Take } from "./target.ts";

// jest keeps longer stacks, which make each error of a parser cost several times as much.
Error.stackTraceLimit = 10;

export type FailureKind = "crash" | "wrong acceptance" | "slow" | "pollution";

export interface Failure {
  readonly kind: FailureKind;
  readonly message: string;
}

export interface FuzzRun {
  readonly inputs: number;
  readonly accepted: number;
  readonly refused: number;
  /** Different ones. */
  readonly answers: number;
  readonly slowestMs: number;
  /** With seed and smallest input; undefined: there is none. */
  readonly failure: string | undefined;
}

/** In memory: on a disk most of an input's time is that of the file that it is written to. */
const DIRECTORY = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();
/** What takes longer each of so many times has neither met the garbage collector nor a neighbour on its core. */
const RETRIES = 8;
/** What an input of up to this size may take; a larger one in proportion. */
const SIZE_OF_LIMIT_BYTES = 65_536;
interface Answer {
  readonly isAccepted: boolean;
  readonly answer: string;
}
type Verdict = Answer | Failure;

export interface FuzzOptions {
  readonly seed: number;
  readonly inputs: number;
  /** Of CPU, for an input of up to 64 KiB. */
  readonly limitMs: number;
}

export async function fuzz(target: FuzzTarget, options: FuzzOptions): Promise<FuzzRun> {
  const directory = mkdtempSync(join(DIRECTORY, "tidemark-fuzz-"));
  const { take, end } = await target.start(directory);
  try {
    return await runInputs({ target, take, limitMs: options.limitMs }, options);
  } finally {
    await end?.();
    rmSync(directory, { recursive: true, force: true });
  }
}

interface Judged {
  readonly target: FuzzTarget;
  readonly take: Take;
  readonly limitMs: number;
}

async function runInputs(judged: Judged, { seed, inputs }: FuzzOptions): Promise<FuzzRun> {
  const { target } = judged;
  const random = new Random(seed);
  const seeds = target.seeds().map((one) => (typeof one === "string" ? Buffer.from(one) : one));
  const corpus = new Corpus(seeds, random);
  const counts = { inputs: 0, accepted: 0, refused: 0, slowestMs: 0 };
  for (; counts.inputs < inputs; counts.inputs += 1) {
    const input = seeds[counts.inputs] ?? target.mutate(random, corpus.pick(), corpus.pick());
    const startMs = performance.now();
    const verdict = await judge(judged, input);
    counts.slowestMs = Math.max(counts.slowestMs, performance.now() - startMs);
    if ("kind" in verdict) {
      const failure = await report(judged, input, verdict, { seed, index: counts.inputs });
      return { ...counts, answers: corpus.answers, failure };
    }
    counts[verdict.isAccepted ? "accepted" : "refused"] += 1;
    corpus.add(input, verdict);
  }
  return { ...counts, answers: corpus.answers, failure: undefined };
}

/** What one input gets. */
async function judge({ target, take, limitMs }: Judged, input: Buffer): Promise<Verdict> {
  const inputLimitMs = limitMs * Math.max(1, input.length / SIZE_OF_LIMIT_BYTES);
  // The wall clock first: it costs less to ask, and no input takes more of the CPU than of it.
  const startMs = performance.now();
  const verdict = await judgeAnswer(target, take, input);
  if ("kind" in verdict || performance.now() - startMs <= inputLimitMs) return verdict;
  let leastMs = Number.POSITIVE_INFINITY;
  for (let again = 0; again < RETRIES; again += 1) {
    const before = process.cpuUsage();
    await judgeAnswer(target, take, input);
    const { user, system } = process.cpuUsage(before);
    leastMs = Math.min(leastMs, (user + system) / 1000);
    if (leastMs <= inputLimitMs) return verdict;
  }
  return { kind: "slow", message: `${input.length} bytes take ${Math.round(leastMs)} ms of CPU` };
}

async function judgeAnswer(target: FuzzTarget, take: Take, input: Buffer): Promise<Verdict> {
  const answer = await answerOf(target, take, input);
  const changed = changedPrototypes();
  return changed === undefined ? answer : { kind: "pollution", message: `it has changed ${changed}` };
}

async function answerOf({ refusals }: FuzzTarget, take: Take, input: Buffer): Promise<Verdict> {
  try {
    const taking = take(input);
    if (taking !== undefined) await taking;
    return { isAccepted: true, answer: "accepted" };
  } catch (error) {
    // Its stack is worked out when it is read, which costs more than most parsers: of crashes alone.
    const { name, message } = error as Error;
    if (error instanceof AssertionError || name === "AssertionError") return { kind: "wrong acceptance", message };
    if (refusals.includes(name)) return { isAccepted: false, answer: answerText(name, message) };
    return { kind: "crash", message: (error as Error).stack ?? `${name}: ${message}` };
  }
}

/** The same for the same complaint about other values. */
function answerText(name: string, message: string): string {
  return `${name}: ${message.slice(0, 120).replaceAll(/".*"?|\d+/gs, "…")}`;
}

const WATCHED = [Object.prototype, Array.prototype] as const;
const BEFORE = WATCHED.map((prototype) => new Set(Object.getOwnPropertyNames(prototype)));

/** Names what is new, and takes it away. */
function changedPrototypes(): string | undefined {
  for (const [index, prototype] of WATCHED.entries()) {
    const names = Object.getOwnPropertyNames(prototype);
    const known = BEFORE[index];
    if (known === undefined || names.length === known.size) continue;
    const added = names.filter((name) => !known.has(name));
    for (const name of added) Reflect.deleteProperty(prototype, name);
    return `${prototype.constructor.name}.prototype: ${added.join(", ")}`;
  }
  return undefined;
}

async function report(
  judged: Judged,
  input: Buffer,
  failure: Failure,
  { seed, index }: { readonly seed: number; readonly index: number },
): Promise<string> {
  const found = await smallest(input, async (candidate) => {
    const verdict = await judge(judged, candidate);
    return "kind" in verdict && verdict.kind === failure.kind ? verdict : undefined;
  });
  const { kind, message } = found.failure ?? failure;
  const text = JSON.stringify(found.input.toString("latin1").slice(0, 2000));
  return [
    `${judged.target.name}: ${kind}: ${message}`,
    `the smallest input found, ${found.input.length} bytes: ${text}`,
    `in base64: ${found.input.toString("base64").slice(0, 4000)}`,
    `TIDEMARK_SEED=${seed} repeats it as input ${index}; give the target this input as a seed, so that every run begins with it`,
  ].join("\n");
}
