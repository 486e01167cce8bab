// Authentication of those who read metrics: its flags, and a metrics server's access and certificate. Without the certificate a token would
// be read on the wire.
import { isAbsolute } from "node:path";
import type { SecureContextOptions, Server } from "node:tls";
import {
  SUBJECT_ACCESS_REVIEWS,
  type SubjectAccessReview,
  TOKEN_REVIEWS,
  type TokenReview,
} from "../../../contracts/kubernetes/resources.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { KubeError } from "../../kube/kube-error.ts";
import { withTimeLimit } from "../async/limited-wait.ts";
import { createBudget } from "../budget.ts";
import { makeOwnPair } from "../certificates/issue-certificate.ts";
import { followPairDirectory, showPair } from "../certificates/shown-pair.ts";
import { type Clock, systemClock } from "../clock.ts";
import { bearerToken, createQuestions, hashOfToken, tokenReview } from "../http/bearer-token.ts";
import type { Logger } from "../log.ts";

export interface SecuredMetrics {
  readonly askAccess: AskAccess;
  /** Shows it a certificate, now and when that changes. The answer ends that. */
  certify(server: Pick<Server, "setSecureContext">): Promise<() => void>;
}

/** Names what it is, not where: nothing checks it, and a certificate that is to be checked comes by --metrics-tls-directory. */
const COMMON_NAME = "metrics.tidemark.dev";
const TLS_OPTIONS: SecureContextOptions = { minVersion: "TLSv1.2" };

/** Undefined where it is not asked for. */
export function secureMetrics(
  authentication: MetricsAuthentication | undefined,
  client: Pick<KubeClient, "create">,
  log: Logger,
): SecuredMetrics | undefined {
  if (authentication === undefined) return undefined;
  const { audience, tlsDirectory } = authentication;
  return {
    askAccess: createMetricsAccess({ client, audience, clock: systemClock, log }),
    certify: async (server) => {
      // First of all, so that kubelet's probes, which check no certificate, are answered whatever is in the directory.
      showPair(server, await makeOwnPair(COMMON_NAME, systemClock.nowMs()), TLS_OPTIONS);
      if (tlsDirectory === undefined) return () => {};
      const followed = await followPairDirectory(tlsDirectory, (pair) => showPair(server, pair, TLS_OPTIONS), log);
      return followed.stop;
    },
  };
}

export interface MetricsAuthentication {
  /** For whom tokens must be; undefined: for the API server. */
  readonly audience: string | undefined;
  /** Where tls.crt and tls.key are; undefined: the process makes a certificate of its own. */
  readonly tlsDirectory: string | undefined;
}

/** For readFlags. */
export const METRICS_FLAGS = {
  "metrics-authentication": { type: "boolean", default: false },
  "metrics-audience": { type: "string" },
  "metrics-tls-directory": { type: "string" },
} as const;

interface MetricsFlagValues {
  readonly "metrics-authentication": boolean;
  readonly "metrics-audience"?: string | undefined;
  readonly "metrics-tls-directory"?: string | undefined;
}

/** Undefined: metrics are for all who reach the port, in the clear. */
export function readMetricsAuthentication(values: MetricsFlagValues): MetricsAuthentication | undefined {
  const { "metrics-audience": audience, "metrics-tls-directory": tlsDirectory } = values;
  if (!values["metrics-authentication"]) {
    for (const flag of ["metrics-audience", "metrics-tls-directory"] as const)
      if (values[flag] !== undefined) throw new Error(`--${flag} is of no use without --metrics-authentication`);
    return undefined;
  }
  if (audience === "") throw new Error("--metrics-audience is empty; without it tokens are those for the API server");
  if (tlsDirectory !== undefined && !isAbsolute(tlsDirectory))
    throw new Error(`--metrics-tls-directory ${tlsDirectory} is not an absolute path`);
  return { audience, tlsDirectory };
}

// Who may read /metrics where that is asked: whose bearer token the API server accepts, and who has the right to "get" that path there.
// Answers are remembered for a short while by the token's hash. It fails closed, and a flood of bad tokens keeps no reader out that was
// let in before.

/** As an HTTP status. */
interface AccessRefusal {
  readonly status: 401 | 403 | 503;
  readonly reason: string;
}

type Access = "allowed" | AccessRefusal;

interface Asker {
  /** The header. */
  readonly authorization: string | undefined;
  readonly address: string;
}

export type AskAccess = (asker: Asker) => Promise<Access>;

interface MetricsAccessOptions {
  readonly client: Pick<KubeClient, "create">;
  /** For whom tokens must be; undefined: for the API server, as a pod's own token is. */
  readonly audience: string | undefined;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly log: Logger;
}

/** So long a right that was taken away is still good: longer than between two looks of Prometheus, or each of them would cost two questions. */
export const ALLOWED_AGE_LIMIT_MS = 60_000;
export const REFUSED_AGE_LIMIT_MS = 10_000;
/** Prometheus gives up after ten seconds. */
export const ANSWER_LIMIT_MS = 5000;
export const READERS_LIMIT = 64;
export const REFUSALS_LIMIT = 1024;
/** Each, for tokens that were good when they were last asked about, and for others: together they leave most of the connections to the API server. */
export const QUESTIONS_LIMIT = 4;
/** Questions about unknown tokens that one address may cause. */
export const UNKNOWN_TOKENS = { burst: 10, intervalMs: 1000, accounts: 1024 };

export function createMetricsAccess({ client, audience, clock, log }: MetricsAccessOptions): AskAccess {
  const memory = createMemory(clock);
  const [ofReaders, ofOthers] = [createQuestions<Access>(QUESTIONS_LIMIT), createQuestions<Access>(QUESTIONS_LIMIT)];
  const unknownTokens = createBudget(UNKNOWN_TOKENS);
  let isAway = false;

  const review = async (hash: string, token: string): Promise<Access> => {
    try {
      const access = await ask(client, token, audience);
      isAway = false;
      memory.remember(hash, access);
      return access;
    } catch (err) {
      if (!(err instanceof KubeError)) throw err;
      log[isAway ? "debug" : "warn"]({ err }, "the API server cannot be asked who may read metrics; no one may");
      isAway = true;
      return { status: 503, reason: "the API server cannot be asked about the token" };
    }
  };
  const question = (hash: string, token: string, address: string): Promise<Access> => {
    const asked = (): Promise<Access> => review(hash, token);
    const asking = memory.isReader(hash)
      ? ofReaders.ask(hash, asked)
      : ofOthers.ask(hash, asked, () => unknownTokens.spend(address, clock.monotonicMs()));
    return asking ?? Promise.resolve({ status: 503, reason: "too many other tokens are being reviewed; try again" });
  };
  return async ({ authorization, address }) => {
    const token = bearerToken(authorization);
    if (token === undefined) return { status: 401, reason: "metrics are read with a bearer token of this cluster" };
    const hash = hashOfToken(token);
    return memory.recall(hash) ?? withinLimit(question(hash, token, address));
  };
}

interface Memory {
  recall(hash: string): Access | undefined;
  remember(hash: string, access: Access): void;
  /** It was let in when it was last asked about. */
  isReader(hash: string): boolean;
}

/** Those who were let in apart from those who were not: no number of bad tokens pushes a good one out. */
function createMemory({ monotonicMs }: Pick<Clock, "monotonicMs">): Memory {
  const readers = new Map<string, number>();
  const refusals = new Map<string, { readonly refusal: AccessRefusal; readonly atMs: number }>();
  return {
    recall: (hash) => {
      const allowedAtMs = readers.get(hash);
      if (allowedAtMs !== undefined) return monotonicMs() - allowedAtMs < ALLOWED_AGE_LIMIT_MS ? "allowed" : undefined;
      const refused = refusals.get(hash);
      return refused !== undefined && monotonicMs() - refused.atMs < REFUSED_AGE_LIMIT_MS ? refused.refusal : undefined;
    },
    remember: (hash, access) => {
      for (const map of [readers, refusals]) map.delete(hash);
      if (access === "allowed") readers.set(hash, monotonicMs());
      else refusals.set(hash, { refusal: access, atMs: monotonicMs() });
      if (readers.size > READERS_LIMIT) readers.delete(readers.keys().next().value ?? "");
      if (refusals.size > REFUSALS_LIMIT) refusals.delete(refusals.keys().next().value ?? "");
    },
    isReader: (hash) => readers.has(hash),
  };
}

/** Throws KubeError. */
async function ask(client: Pick<KubeClient, "create">, token: string, audience: string | undefined): Promise<Access> {
  const audiences = audience === undefined ? [] : [audience];
  const review = tokenReview(token, audiences);
  const user = userOf(await client.create("metrics-access/review-token", TOKEN_REVIEWS, review), audiences);
  if (user === undefined) return { status: 401, reason: "the API server does not accept the token" };
  const question = accessReview(user);
  const { status } = await client.create("metrics-access/review-right", SUBJECT_ACCESS_REVIEWS, question);
  if (status?.allowed === true && status.denied !== true) return "allowed";
  return { status: 403, reason: `${user.username} may not get the non-resource URL ${PATH}` };
}

const PATH = "/metrics";

type User = NonNullable<NonNullable<TokenReview["status"]>["user"]> & { readonly username: string };

/** An API server that knows no audiences would leave them out of its answer. */
function userOf({ status }: TokenReview, audiences: readonly string[]): User | undefined {
  const username = status?.user?.username ?? "";
  if (status?.authenticated !== true || username === "") return undefined;
  if (!audiences.every((audience) => status.audiences?.includes(audience))) return undefined;
  return { ...status.user, username };
}

function accessReview({ username, uid, groups, extra }: User): SubjectAccessReview {
  return {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SubjectAccessReview",
    metadata: { name: "" },
    spec: { user: username, uid, groups, extra, nonResourceAttributes: { path: PATH, verb: "get" } },
  };
}

/** The question goes on, and its answer is remembered: who asks again may have it. */
async function withinLimit(asking: Promise<Access>): Promise<Access> {
  const late = (limitMs: number): Access => ({
    status: 503,
    reason: `the API server has not answered within ${limitMs} ms`,
  });
  return withTimeLimit(asking, ANSWER_LIMIT_MS, late);
}
