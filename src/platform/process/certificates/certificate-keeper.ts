// Maintains a CA and its leaves in Secrets while this replica leads: at each change of one of them and every few minutes. It never ends the
// process: a failed round is retried, and servers go on with the certificates that they have.
import { SECRETS, type Secret } from "../../../contracts/kubernetes/resources.ts";
import { createReflector, reflectorSet } from "../../kube/cache/reflector.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import type { EventRecorder } from "../../kube/events/events.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import { BACK_OFFS, backOffMs } from "../async/back-off.ts";
import type { Logger } from "../log.ts";
import {
  type CertificateTimes,
  decideAuthority,
  decideBundle,
  decideLeaf,
  type PairDecision,
} from "./decide-certificates.ts";
import { issueLeaf, makeAuthority } from "./issue-certificate.ts";
import { hasPair, type KeyPair, type LeafProfile, type StoredPair, storedPair, withPair } from "./key-pair.ts";

interface CertificateKeeperOptions extends CertificateRoundOptions {
  readonly client: Pick<KubeClient, "get" | "list" | "watch" | "update">;
  /** Asked before each round. */
  readonly isLeader: () => boolean;
  /** Called with each content that one of the Secrets takes on, leader or not. */
  readonly changed: (secret: Secret) => void;
}

export interface CertificateKeeper {
  /** Resolves when each Secret was looked up, and `changed` has heard of those that exist; never when stopped before. */
  readonly synced: Promise<void>;
  start(): void;
  /** Looks now: leadership was won. */
  wake(): void;
  stop(): Promise<void>;
}

const ROUND_INTERVAL_MS = 600_000;

export function createCertificateKeeper(options: CertificateKeeperOptions): CertificateKeeper {
  const { client, namespace, authoritySecretName, leaves, isLeader, changed, log } = options;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  let askedMeanwhile = false;
  let failures = 0;
  let stopped = false;

  const round = async (): Promise<void> => {
    try {
      if (isLeader()) await runCertificateRound(options);
      failures = 0;
    } catch (err) {
      failures += 1;
      log[isKubeError(err, "Conflict") ? "debug" : "warn"](
        { err, failures },
        "the certificates could not be looked after; trying again",
      );
    }
  };
  const wake = (): void => {
    askedMeanwhile = running !== undefined;
    if (stopped || running !== undefined) return;
    clearTimeout(timer);
    running = round().finally(() => {
      running = undefined;
      if (stopped) return;
      if (askedMeanwhile) return wake();
      const waitMs = failures === 0 ? ROUND_INTERVAL_MS : backOffMs(failures, BACK_OFFS.node, Math.random());
      timer = setTimeout(wake, waitMs).unref();
    });
  };
  // Each by its name: what we may read is these Secrets, not the namespace's others.
  const reflectors = [authoritySecretName, ...leaves.map(({ secretName }) => secretName)].map((name) =>
    createReflector({ client, resource: SECRETS, log, select: { namespace, fieldSelector: `metadata.name=${name}` } }),
  );
  const taken = (secret: Secret): void => {
    changed(secret);
    wake();
  };
  for (const reflector of reflectors) reflector.subscribe({ added: taken, updated: taken, deleted: () => wake() });
  const { synced, start, stop } = reflectorSet(reflectors);
  return {
    synced,
    start: () => {
      start();
      wake();
    },
    wake,
    stop: async () => {
      stopped = true;
      clearTimeout(timer);
      await stop();
      await running;
    },
  };
}

// One round: gather → decide → apply → report. A resourceVersion guards each write: of two writers one is refused, and reads again. The
// manifests bring the Secrets, empty: the right to create Secrets would give the token of any service account of the namespace.

/** A leaf's profile, and the Secret that it stands in. */
export interface Leaf extends LeafProfile {
  readonly secretName: string;
}

interface CertificateRoundOptions {
  readonly client: Pick<KubeClient, "get" | "update">;
  readonly events: Pick<EventRecorder, "record">;
  readonly namespace: string;
  /** The CA's Secret: only the issuer may read it. */
  readonly authoritySecretName: string;
  readonly leaves: readonly Leaf[];
  readonly times: CertificateTimes;
  readonly nowMs: () => number;
  readonly log: Logger;
}

interface Found {
  readonly secret: Secret;
  readonly stored: StoredPair | undefined;
}

/** A Secret is not there; its message says what to do. */
class MissingSecretError extends Error {}

/**
 * Throws MissingSecretError, once the others have been looked after, where a leaf's Secret is missing, and at once where the CA's is. Throws
 * KubeError; "Conflict" means that another was quicker. Idempotent.
 */
export async function runCertificateRound(options: CertificateRoundOptions): Promise<void> {
  const { authoritySecretName, leaves, times } = options;
  const nowMs = options.nowMs();
  const authority = await gather(options, authoritySecretName);
  if (authority === undefined) throw missing(options, [authoritySecretName]);
  const looked = await Promise.all(
    leaves.map(async (leaf) => ({ leaf, found: await gather(options, leaf.secretName) })),
  );
  const held = looked.map(({ found }) => found?.stored);

  const decision = decideAuthority(authority.stored, nowMs, times);
  const signing = await pairOf(decision, authority.stored, () => makeAuthority(authoritySecretName, nowMs, times));
  const bundle = decideBundle(signing, authority.stored, held, nowMs, times);
  // The CA first: nothing may be signed by one that did not come to be stored.
  await apply(options, authority, decision, signing, bundle);
  for (const { leaf, found } of looked) {
    if (found === undefined) continue;
    const leafDecision = decideLeaf(found.stored, signing, bundle, leaf, nowMs, times);
    const pair = await pairOf(leafDecision, found.stored, () => issueLeaf(signing, leaf, nowMs, times));
    await apply(options, found, leafDecision, pair, bundle);
  }
  const lost = looked.filter(({ found }) => found === undefined).map(({ leaf }) => leaf.secretName);
  if (lost.length > 0) throw missing(options, lost);
}

function missing({ namespace }: CertificateRoundOptions, secretNames: readonly string[]): MissingSecretError {
  const names = secretNames.map((name) => `${namespace}/${name}`).join(", ");
  return new MissingSecretError(
    `no Secret ${names}: apply the manifests of the installation again, which have it empty`,
  );
}

async function gather({ client, namespace }: CertificateRoundOptions, secretName: string): Promise<Found | undefined> {
  const secret = await client.get(SECRETS, { namespace, name: secretName });
  if (secret === undefined) return undefined;
  return { secret, stored: hasPair(secret) ? storedPair(secret) : undefined };
}

async function pairOf(
  decision: PairDecision,
  stored: StoredPair | undefined,
  make: () => Promise<KeyPair>,
): Promise<KeyPair> {
  return decision.do === "keep" && stored !== undefined ? stored : make();
}

async function apply(
  options: CertificateRoundOptions,
  { secret, stored }: Found,
  decision: PairDecision,
  pair: KeyPair,
  bundle: readonly string[],
): Promise<void> {
  if (decision.do === "keep" && stored?.bundlePem === bundle.join("")) return;
  const wanted = withPair(secret, pair, bundle);
  const written = await options.client.update("certificates/update-secret", SECRETS, wanted);
  report(options, written, decision, bundle.length);
}

function report(
  { events, log }: CertificateRoundOptions,
  secret: Secret,
  decision: PairDecision,
  trustedAuthorities: number,
): void {
  const { namespace, name } = secret.metadata;
  const subject = { namespace, secret: name, trustedAuthorities };
  if (decision.do === "keep") return log.info(subject, "the CAs to trust have changed");
  if (decision.why !== "Broken") return log.info({ ...subject, why: decision.why }, "a certificate was made");
  const message = `replaced, since it could not be used: ${decision.problem ?? ""}`;
  events.record(secret, "Warning", "CertificateReplaced", message);
  log.warn({ ...subject, problem: decision.problem }, "a certificate was replaced, since it could not be used");
}
