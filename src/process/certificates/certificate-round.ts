// One look at the CA's and the leaves' Secrets, and the writes that it takes to make them right: gather → decide → apply →
// report. Writes are guarded by resourceVersion, so that of two who do this at once one is refused, and looks again. The Secrets come, empty,
// with the manifests: who may create Secrets could have the token of any service account of the namespace written into one.
import type { KubeClient } from "../../kube/client/client.ts";
import type { EventRecorder } from "../../kube/events/events.ts";
import { SECRETS, type Secret } from "../../kube/resources.ts";
import type { Logger } from "../log.ts";
import type { CertificateTimes } from "./certificate-times.ts";
import {
  decideAuthority,
  decideBundle,
  decideLeaf,
  type PairDecision,
  type StoredPair,
} from "./decide-certificates.ts";
import { issueLeaf, makeAuthority } from "./issue-certificate.ts";
import type { KeyPair, LeafProfile } from "./key-pair.ts";
import { hasPair, storedPair, withPair } from "./pair-secret.ts";

/** A leaf's profile, and the Secret that it stands in. */
export interface Leaf extends LeafProfile {
  readonly secretName: string;
}

export interface CertificateRoundOptions {
  readonly client: Pick<KubeClient, "get" | "update">;
  readonly events: Pick<EventRecorder, "record">;
  readonly namespace: string;
  /** The CA's Secret: only whoever issues may read it. */
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
export class MissingSecretError extends Error {}

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
