// One look at the CA's and the leaves' Secrets, and the writes that it takes to make them right: gather → decide → apply →
// report. Writes are guarded by resourceVersion, so that of two who do this at once one is refused, and looks again.
import type { KubeClient } from "../../kube/client.ts";
import type { EventRecorder } from "../../kube/events.ts";
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
import { hasPair, pairSecret, storedPair } from "./pair-secret.ts";

/** A leaf's profile, and the Secret that it stands in. */
export interface Leaf extends LeafProfile {
  readonly secretName: string;
}

export interface CertificateRoundOptions {
  readonly client: Pick<KubeClient, "get" | "create" | "update">;
  readonly events: Pick<EventRecorder, "record">;
  readonly namespace: string;
  /** Who keeps them, e.g. "tidemark-operator". */
  readonly managedBy: string;
  /** The CA's Secret: only whoever issues may read it. */
  readonly authoritySecretName: string;
  readonly leaves: readonly Leaf[];
  readonly times: CertificateTimes;
  readonly nowMs: () => number;
  readonly log: Logger;
}

interface Found {
  readonly name: { readonly namespace: string; readonly name: string };
  readonly secret: Secret | undefined;
  readonly stored: StoredPair | undefined;
}

/** Throws KubeError; "Conflict" and "AlreadyExists" mean that another was quicker. Idempotent. */
export async function runCertificateRound(options: CertificateRoundOptions): Promise<void> {
  const { authoritySecretName, leaves, times } = options;
  const nowMs = options.nowMs();
  const authority = await gather(options, authoritySecretName);
  const found = await Promise.all(leaves.map(async (leaf) => ({ leaf, ...(await gather(options, leaf.secretName)) })));
  const held = found.map(({ stored }) => stored);

  const decision = decideAuthority(authority.stored, nowMs, times);
  const signing = await pairOf(decision, authority.stored, () => makeAuthority(authoritySecretName, nowMs, times));
  const bundle = decideBundle(signing, authority.stored, held, nowMs, times);
  // The CA first: nothing may be signed by one that did not come to be stored.
  await apply(options, authority, decision, signing, bundle);
  for (const each of found) {
    const leafDecision = decideLeaf(each.stored, signing, bundle, each.leaf, nowMs, times);
    const pair = await pairOf(leafDecision, each.stored, () => issueLeaf(signing, each.leaf, nowMs, times));
    await apply(options, each, leafDecision, pair, bundle);
  }
}

async function gather({ client, namespace }: CertificateRoundOptions, secretName: string): Promise<Found> {
  const name = { namespace, name: secretName };
  const secret = await client.get(SECRETS, name);
  return { name, secret, stored: secret !== undefined && hasPair(secret) ? storedPair(secret) : undefined };
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
  { name, secret, stored }: Found,
  decision: PairDecision,
  pair: KeyPair,
  bundle: readonly string[],
): Promise<void> {
  if (decision.do === "keep" && stored?.bundlePem === bundle.join("")) return;
  const wanted = pairSecret(name, pair, bundle, secret, options.managedBy);
  const written =
    secret === undefined
      ? await options.client.create("certificates/create-secret", SECRETS, wanted)
      : await options.client.update("certificates/update-secret", SECRETS, wanted);
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
