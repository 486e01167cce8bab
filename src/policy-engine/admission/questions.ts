// What the webhook asks its threads, and what they answer.
import type { PolicyVerdict } from "./check-policy.ts";
import type { PolicyReview } from "./policy-review.ts";

/** "read": a body as it came; "check": a policy as JSON. */
export type Question =
  | { readonly type: "read"; readonly body: Uint8Array }
  | { readonly type: "check"; readonly policy: string };

export type Answer =
  | { readonly type: "review"; readonly review: PolicyReview }
  /** Not a review; the message is for its sender. */
  | { readonly type: "foreign"; readonly message: string }
  | { readonly type: "verdict"; readonly verdict: PolicyVerdict };
