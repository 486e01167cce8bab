// A thread of the webhook: reads bodies and compiles policies, one at a time, with no part in decisions. What it takes too long for, or too
// much memory, ends it, and another one is opened.
import { parentPort } from "node:worker_threads";
import { ForeignReview } from "../../platform/kube/admission/admission-review.ts";
import type { AnyPolicy } from "../policies/compile-policy.ts";
import { checkPolicy } from "./check-policy.ts";
import { readPolicyReview } from "./policy-review.ts";
import type { Answer, Question } from "./questions.ts";

function answer(question: Question): Answer {
  if (question.type === "check")
    return { type: "verdict", verdict: checkPolicy(JSON.parse(question.policy) as AnyPolicy) };
  try {
    return { type: "review", review: readPolicyReview(new TextDecoder().decode(question.body)) };
  } catch (error) {
    if (error instanceof ForeignReview) return { type: "foreign", message: error.message };
    throw error;
  }
}

parentPort?.on("message", (question: Question) => parentPort?.postMessage(answer(question)));
