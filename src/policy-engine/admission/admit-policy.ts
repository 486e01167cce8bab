// One policy's admission: read → compile and lint in a thread → look what it selects now → answer. It refuses what does not compile, and
// nothing else: what cannot be found out in time is taken, since a policy that does not compile is held safely.
import { answeredReview, ForeignReview } from "../../platform/kube/admission/admission-review.ts";
import { RequestRefused } from "../../platform/kube/admission/webhook-server.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { PolicySelection } from "../policies/compiled-policy.ts";
import type { PolicyVerdict } from "./check-policy.ts";
import type { PolicyReview, PolicyText } from "./policy-review.ts";
import type { ReviewThread } from "./review-thread.ts";
import type { Turns } from "./turns.ts";

/** "NotAsked": nothing that may be refused; "Unchecked": not in time; "Failed": no review, or it could not be read. */
export type ReviewResult = "Allowed" | "Warned" | "Refused" | "NotAsked" | "Unchecked" | "Failed";

export interface PolicyAdmission {
  /** For bodies, in the order in which they come. */
  readonly reader: ReviewThread;
  readonly readerTurns: Turns;
  /** For policies, by namespace. */
  readonly checker: ReviewThread;
  readonly checkerTurns: Turns;
  /** Warnings of what it selects now. */
  readonly selectedNow: (selection: PolicySelection) => readonly string[];
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly answered: (result: ReviewResult, durationMs: number) => void;
}

/** Of a whole request: under the timeoutSeconds of the webhook's configuration. */
export const ANSWER_LIMIT_MS = 1900;
/** A body of 4 MiB takes some 50 ms. */
const READ_LIMIT_MS = 600;
/** Many times what the largest policy within its budget takes; another namespace's still has its turn within the time. */
const CHECK_LIMIT_MS = 1000;
const WARNINGS_SHOWN = 10;
const UNCHECKED = "the policy was not checked in time: its condition Ready says whether it compiles";
const CLUSTER = "";

/** Throws RequestRefused for what is not a review, or cannot be read in time. */
export async function admitPolicy(admission: PolicyAdmission, body: Buffer): Promise<object> {
  const { clock, answered, selectedNow } = admission;
  const startedMs = clock.monotonicMs();
  const end = (result: ReviewResult): void => answered(result, clock.monotonicMs() - startedMs);
  const { uid, policy } = await read(admission, body);
  if (policy === "unasked") {
    end("NotAsked");
    return answeredReview(uid, { allowed: true });
  }
  const verdict =
    policy === "too large"
      ? undefined
      : await check(admission, policy, ANSWER_LIMIT_MS - (clock.monotonicMs() - startedMs));
  if (verdict === undefined) {
    end("Unchecked");
    return answeredReview(uid, { allowed: true, warnings: [UNCHECKED] });
  }
  const { refusal, selection } = verdict;
  if (refusal !== undefined) {
    end("Refused");
    return answeredReview(uid, { allowed: false, status: { code: 422, reason: "Invalid", message: refusal } });
  }
  const warnings = [...verdict.warnings, ...selectedNow(selection)];
  end(warnings.length > 0 ? "Warned" : "Allowed");
  return answeredReview(uid, { allowed: true, ...(warnings.length > 0 ? { warnings: firstOf(warnings) } : {}) });
}

async function read({ reader, readerTurns }: PolicyAdmission, body: Buffer): Promise<PolicyReview> {
  const answer = await readerTurns.take(CLUSTER, READ_LIMIT_MS, (leftMs) => reader.ask({ type: "read", body }, leftMs));
  if (answer?.type === "foreign") throw new ForeignReview(answer.message);
  if (answer?.type === "review") return answer.review;
  throw new RequestRefused(503, "too much is being read at once; send it again");
}

async function check(
  { checker, checkerTurns }: PolicyAdmission,
  { namespace, text }: PolicyText,
  limitMs: number,
): Promise<PolicyVerdict | undefined> {
  const answer = await checkerTurns.take(namespace ?? CLUSTER, limitMs, (leftMs) =>
    checker.ask({ type: "check", policy: text }, Math.min(leftMs, CHECK_LIMIT_MS)),
  );
  return answer?.type === "verdict" ? answer.verdict : undefined;
}

function firstOf(warnings: readonly string[]): readonly string[] {
  const more = warnings.length - WARNINGS_SHOWN;
  return more > 0 ? [...warnings.slice(0, WARNINGS_SHOWN), `and ${more} more warnings`] : warnings;
}
