// Where agents reach this engine, and what they must show there: a unix socket or loopback in the clear, or the network with
// mutual TLS and a token. It keeps the certificates while this replica leads; it does not look into the stream.

import { type Metadata, status } from "@grpc/grpc-js";
import { TOKEN_REVIEWS, type TokenReview } from "../../contracts/kubernetes/resources.ts";
import {
  AGENT_CERTIFICATE_NAME,
  CERTIFICATE_SECRETS,
  ENGINE_CERTIFICATE_NAME,
  SAMPLES_AUDIENCE,
} from "../../contracts/names.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import { KubeError } from "../../platform/kube/kube-error.ts";
import { createCertificateKeeper } from "../../platform/process/certificates/certificate-keeper.ts";
import { CERTIFICATE_TIMES } from "../../platform/process/certificates/decide-certificates.ts";
import { createMutualTls } from "../../platform/process/certificates/mutual-tls.ts";
import { showSecret } from "../../platform/process/certificates/shown-pair.ts";
import { formatAddress } from "../../platform/process/flags.ts";
import { type GrpcService, serveOnAddress, serveOnSocket, serveOverTls } from "../../platform/process/grpc.ts";
import { bearerToken, createQuestions, hashOfToken, tokenReview } from "../../platform/process/http/bearer-token.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { PolicyEngineConfig } from "../config.ts";

interface SampleListenerOptions {
  readonly config: Pick<PolicyEngineConfig, "samplesSocket" | "samplesAddress" | "samplesTls" | "leaseNamespace">;
  readonly client: KubeClient;
  readonly events: EventRecorder;
  readonly leadership: { isLeader(): boolean };
  readonly nowMs: () => number;
  readonly log: Logger;
}

interface SampleListener {
  /** Resolves with where it listens. With TLS, handshakes fail until the leader has made the certificates. */
  serve(service: GrpcService): Promise<string>;
  /** This replica leads now. */
  leading(): void;
  close(): Promise<void>;
}

/** Who may speak there. */
export function admissionFor(
  { samplesTls, leaseNamespace, agentServiceAccount }: PolicyEngineConfig,
  client: Pick<KubeClient, "create">,
  nowMs: () => number,
): Admit {
  if (samplesTls === "Off") return admitAnyone;
  const agentUsername = `system:serviceaccount:${leaseNamespace}:${agentServiceAccount}`;
  return createAgentAdmission({ client, agentUsername, nowMs });
}

export function createSampleListener(options: SampleListenerOptions): SampleListener {
  const { samplesSocket, samplesAddress, samplesTls } = options.config;
  const certificates = samplesTls === "SelfMade" ? createServerCertificates(options) : undefined;
  let server: { close(): Promise<void> } | undefined;
  return {
    serve: async (service) => {
      if (samplesAddress === undefined) {
        server = await serveOnSocket(samplesSocket, [service]);
        return `unix://${samplesSocket}`;
      }
      const serving =
        certificates === undefined
          ? await serveOnAddress(samplesAddress, [service])
          : await serveOverTls(samplesAddress, certificates.tls, [service]);
      server = serving;
      certificates?.keeper.start();
      return formatAddress({ ...samplesAddress, port: serving.port });
    },
    leading: () => certificates?.keeper.wake(),
    close: async () => {
      await certificates?.keeper.stop();
      await server?.close();
    },
  };
}

function createServerCertificates({ config, client, events, leadership, nowMs, log }: SampleListenerOptions) {
  const tls = createMutualTls(log);
  const keeper = createCertificateKeeper({
    client,
    events,
    namespace: config.leaseNamespace,
    authoritySecretName: CERTIFICATE_SECRETS.authority,
    leaves: [
      { secretName: CERTIFICATE_SECRETS.engine, commonName: ENGINE_CERTIFICATE_NAME, usage: "server" },
      { secretName: CERTIFICATE_SECRETS.agent, commonName: AGENT_CERTIFICATE_NAME, usage: "client" },
    ],
    times: CERTIFICATE_TIMES,
    isLeader: () => leadership.isLeader(),
    changed: (secret) => {
      if (secret.metadata.name === CERTIFICATE_SECRETS.engine) showSecret(secret, tls.replace, log);
    },
    nowMs,
    log,
  });
  return { tls, keeper };
}

// Which node an agent may speak for: the one that its service account token names, as the API server sees it. Answers are stored by the
// token's hash, so that a stream can be reopened while the API server is down; the token itself is never stored.

interface NotAdmitted {
  readonly admitted: false;
  readonly code: status;
  readonly reason: string;
}

/** What a token says about its bearer. */
type Verdict = { readonly admitted: true; readonly nodeName: string } | NotAdmitted;

/** `nodeName` undefined: it may speak for whichever node it names. */
type Admission = { readonly admitted: true; readonly nodeName: string | undefined } | NotAdmitted;

/** Asked once for each stream, with what came with its call. Never throws. */
export type Admit = (metadata: Metadata) => Promise<Admission>;

/** For a listener that no other machine reaches. */
export const admitAnyone: Admit = async () => ({ admitted: true, nodeName: undefined });

interface AgentAdmissionOptions {
  readonly client: Pick<KubeClient, "create">;
  /** "system:serviceaccount:NAMESPACE:NAME": any account may get a token for our audience, only agents one for this account. */
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
      return refused(status.UNAUTHENTICATED, "the call has no service account token (--engine-token-file)");
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

function refused(code: status, reason: string): NotAdmitted {
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

/** The API server has checked the token; it only does not repeat when it ends. 0, so never stored, when that cannot be read. */
function expiryOf(token: string): number {
  try {
    const claims: unknown = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString("utf8"));
    const seconds = typeof claims === "object" && claims !== null && "exp" in claims ? claims.exp : undefined;
    return typeof seconds === "number" && Number.isFinite(seconds) ? seconds * 1000 : 0;
  } catch {
    return 0;
  }
}
