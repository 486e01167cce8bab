// A thread of the policy webhook: a question that takes too long ends it, and the next one is answered all the same.
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { createReviewThread, type ReviewThread } from "../../../src/policy-engine/admission/review-thread.ts";
import type { AnyPolicy } from "../../../src/policy-engine/policies/compile-policy.ts";
import { aVolumePolicy, EXTEND_AT_80 } from "../../builders/policy.ts";
import { buildPolicyReview } from "../../builders/policy-review.ts";
import { worstPolicy } from "../../builders/worst-policy.ts";
import { createRecordingLog } from "../../fakes/recording-log.ts";
import { BUNDLE_PATH } from "../../harness/bundle-process.ts";
import { describeReal } from "../../harness/real-parts.ts";

const LONG_MS = 60_000;
const WHOLE = 4 << 20;
const HALF = (WHOLE - 2048) / 2;

describeReal("a thread of the policy webhook", ["bundle"], () => {
  let thread: ReviewThread;
  beforeEach(() => {
    thread = createReviewThread(join(dirname(BUNDLE_PATH), "review-worker.mjs"), true, createRecordingLog().log);
  });
  afterEach(() => thread.stop());

  const check = (policy: AnyPolicy, limitMs = LONG_MS) =>
    thread.ask({ type: "check", policy: JSON.stringify(policy) }, limitMs);
  const refusal = async (policy: AnyPolicy) => {
    const answer = await check(policy);
    return answer?.type === "verdict" ? answer.verdict.refusal : "no verdict";
  };

  it("is left with what takes too long, and the next question gets its own answer", async () => {
    expect(await refusal(aVolumePolicy())).toBeUndefined();
    expect(await check(worstPolicy("team", 0, "over"), 1)).toBeUndefined();
    expect(await refusal(aVolumePolicy())).toBeUndefined();
    expect(await refusal(aVolumePolicy({ rules: [{ ...EXTEND_AT_80, when: "1" }] }))).toContain("does not compile");
  });

  it.each([
    ["arrays in arrays", () => `${"[".repeat(HALF)}${"]".repeat(HALF)}`],
    ["empty objects", () => `[${Array.from({ length: WHOLE / 3 }, () => "{}").join()}]`],
    ["names", () => `{${Array.from({ length: WHOLE / 10 }, (_, i) => `"${i}":0`).join()}}`],
  ])("reads a body of 4 MiB that is made to take memory, of %s, or ends, and the process goes on", async (_, made) => {
    const text = JSON.stringify(buildPolicyReview(aVolumePolicy(), { oldObject: { spec: "HERE" }, object: "HERE" }));
    for (const operation of ["CREATE", "UPDATE"])
      for (const whole of [made(), text.replaceAll("CREATE", operation).replace('"HERE"', made())]) {
        const answer = await thread.ask(
          { type: "read", body: new TextEncoder().encode(whole.slice(0, WHOLE)) },
          LONG_MS,
        );
        expect(answer?.type).not.toBe("verdict");
      }
    expect(await refusal(aVolumePolicy())).toBeUndefined();
  });

  it("answers nothing more once it was stopped", async () => {
    await thread.stop();
    expect(await check(aVolumePolicy())).toBeUndefined();
  });
});
