// Which node an agent may speak for: the one that its service account token names, as the API server sees it. Answers are kept
// by the token's hash, so that a stream can be opened again while the API server is down; the token itself is never kept.
import { type Metadata, status } from "@grpc/grpc-js";
import { SAMPLES_AUDIENCE } from "../../api/sample-stream.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { KubeError } from "../../kube/kube-error.ts";
import { TOKEN_REVIEWS, type TokenReview } from "../../kube/resources.ts";
import { bearerToken, createQuestions, hashOfToken, tokenReview } from "../../process/bearer-token.ts";

interface Refusal {
  readonly admitted: false;
  readonly code: status;
  readonly reason: string;
}

/** What a token says about its bearer. */
type Verdict = { readonly admitted: true; readonly nodeName: string } | Refusal;

/** `nodeName` undefined: it may speak for whichever node it names. */
export type Admission = { readonly admitted: true; readonly nodeName: string | undefined } | Refusal;

/** Asked once for each stream, with what came with its call. Never throws. */
export type Admit = (metadata: Metadata) => Promise<Admission>;

/** For a listener that nobody outside this machine reaches. */
export const admitAnyone: Admit = async () => ({ admitted: true, nodeName: undefined });

export interface AgentAdmissionOptions {
  readonly client: Pick<KubeClient, "create">;
  /** "system:serviceaccount:NAMESPACE:NAME": anybody may have a token for our audience made, only agents one for this account. */
  readonly agentUsername: string;
  readonly nowMs: () => number;
}

/** An answer younger than this is not asked for again: thousands of agents come back at once when an engine restarts. */
const REVIEW_AGE_LIMIT_MS = 600_000;
const REMEMBERED_TOKENS_LIMIT = 20_000;
const REVIEWS_UNDER_WAY_LIMIT = 64;
const NODE_NAME_EXTRA = "authentication.kubernetes.io/node-name";

interface Reviewed {
  readonly nodeName: string;
  readonly reviewedAtMs: number;
  readonly expiresAtMs: number;
}

export function createAgentAdmission({ client, agentUsername, nowMs }: AgentAdmissionOptions): Admit {
  const reviewed = new Map<string, Reviewed>();
  const questions = createQuestions<Verdict>(REVIEWS_UNDER_WAY_LIMIT);

  const remember = (hash: string, token: string, nodeName: string): void => {
    reviewed.set(hash, { nodeName, reviewedAtMs: nowMs(), expiresAtMs: expiryOf(token) });
    for (const [oldest, { expiresAtMs }] of reviewed)
      if (reviewed.size > REMEMBERED_TOKENS_LIMIT || expiresAtMs <= nowMs()) reviewed.delete(oldest);
  };
  const review = async (hash: string, token: string): Promise<Verdict> => {
    try {
      const question = tokenReview(token, [SAMPLES_AUDIENCE]);
      const answer = await client.create("agent-admission/review-token", TOKEN_REVIEWS, question);
      const verdict = judge(answer, agentUsername);
      if (verdict.admitted) remember(hash, token, verdict.nodeName);
      else reviewed.delete(hash);
      return verdict;
    } catch (error) {
      if (!(error instanceof KubeError)) throw error;
      const known = reviewed.get(hash);
      if (known !== undefined && nowMs() < known.expiresAtMs) return { admitted: true, nodeName: known.nodeName };
      return refused(status.UNAVAILABLE, `the API server cannot be asked about the agent's token: ${error.message}`);
    }
  };
  return async (metadata) => {
    const [authorization] = metadata.get("authorization");
    const token = bearerToken(authorization?.toString());
    if (token === undefined)
      return refused(status.UNAUTHENTICATED, "there is no service account token with the call (--engine-token-file)");
    const hash = hashOfToken(token);
    const known = reviewed.get(hash);
    if (known !== undefined && nowMs() < Math.min(known.expiresAtMs, known.reviewedAtMs + REVIEW_AGE_LIMIT_MS))
      return { admitted: true, nodeName: known.nodeName };
    return (
      questions.ask(hash, () => review(hash, token)) ??
      refused(status.UNAVAILABLE, `${REVIEWS_UNDER_WAY_LIMIT} other tokens are being reviewed; try again`)
    );
  };
}

function refused(code: status, reason: string): Refusal {
  return { admitted: false, code, reason };
}

function judge({ status: answer }: TokenReview, agentUsername: string): Verdict {
  if (answer?.authenticated !== true || answer.audiences?.includes(SAMPLES_AUDIENCE) !== true)
    return refused(
      status.UNAUTHENTICATED,
      `the API server does not accept the token for ${SAMPLES_AUDIENCE}: ${answer?.error ?? "no reason given"}`,
    );
  const username = answer.user?.username ?? "";
  if (username !== agentUsername)
    return refused(status.PERMISSION_DENIED, `the token is one of ${username}, not of ${agentUsername}`);
  const nodeName = answer.user?.extra?.[NODE_NAME_EXTRA]?.[0];
  if (nodeName === undefined)
    return refused(
      status.PERMISSION_DENIED,
      "the token names no node: it must be one projected into a pod, by Kubernetes 1.30 or newer",
    );
  return { admitted: true, nodeName };
}

/** The API server has checked the token; it only does not repeat when it ends. 0, so never kept, when that cannot be read. */
function expiryOf(token: string): number {
  try {
    const claims: unknown = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString("utf8"));
    const seconds = typeof claims === "object" && claims !== null && "exp" in claims ? claims.exp : undefined;
    return typeof seconds === "number" && Number.isFinite(seconds) ? seconds * 1000 : 0;
  } catch {
    return 0;
  }
}
