// One thread that answers one question at a time, with an end: a question that takes too long takes the thread with it, and the next one
// gets a new one.
import { Worker } from "node:worker_threads";
import type { Logger } from "../../platform/process/log.ts";
import type { Answer, Question } from "./questions.ts";

export interface ReviewThread {
  /** Undefined: there was no answer within the time, or the thread failed at it. Never rejects. Not before the last one was answered. */
  ask(question: Question, limitMs: number): Promise<Answer | undefined>;
  /** Without waiting for an answer. */
  stop(): Promise<void>;
}

/**
 * Several times what the largest policy within its budget takes, and what a body of 4 MiB can be made to take (130 MB). Not less: what V8
 * itself allocates beyond it, as in JSON.parse, ends the process, and not the thread.
 */
const THREAD_LIMITS = { maxOldGenerationSizeMb: 384, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 };

/** `hasSpare`: another thread stands by, so that no question waits for the start of one. */
export function createReviewThread(workerPath: string, hasSpare: boolean, log: Logger): ReviewThread {
  let worker: Worker | undefined;
  let spare: Worker | undefined;
  let isStopped = false;
  const open = (): Worker => {
    const opened = new Worker(workerPath, { resourceLimits: THREAD_LIMITS, env: {}, argv: [] });
    opened.unref();
    opened.on("error", (err) => log.warn({ err }, "a thread of the policy webhook failed"));
    opened.once("exit", () => {
      if (worker === opened) worker = undefined;
      if (spare === opened) spare = undefined;
    });
    return opened;
  };
  const prepare = (): Worker => {
    worker ??= spare ?? open();
    if (spare === worker) spare = undefined;
    if (hasSpare) spare ??= open();
    return worker;
  };
  // Its start is not to take time from the first question.
  prepare();
  return {
    ask: async (question, limitMs) => {
      if (isStopped) return undefined;
      const asked = prepare();
      const answer = await answerOf(asked, question, limitMs);
      if (answer === undefined) {
        if (worker === asked) worker = undefined;
        void asked.terminate();
        if (!isStopped) prepare();
      }
      return answer;
    },
    stop: async () => {
      isStopped = true;
      const threads = [worker, spare].filter((one) => one !== undefined);
      worker = undefined;
      spare = undefined;
      await Promise.all(threads.map((one) => one.terminate()));
    },
  };
}

function answerOf(worker: Worker, question: Question, limitMs: number): Promise<Answer | undefined> {
  return new Promise((resolve) => {
    const end = (answer: Answer | undefined): void => {
      clearTimeout(timer);
      worker.off("message", end).off("exit", ended);
      worker.unref();
      resolve(answer);
    };
    const ended = (): void => end(undefined);
    const timer = setTimeout(ended, limitMs);
    worker.ref();
    worker.on("message", end).on("exit", ended);
    worker.postMessage(question);
  });
}
