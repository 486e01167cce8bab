// What NetworkPolicies let in, as Kubernetes defines it: policies add up, and a pod that one selects is closed to all that none allows. It
// reads the fields that ours have, and refuses others.
import type { Manifest } from "./kustomize.ts";

type Labels = Readonly<Record<string, string>>;

interface Selector {
  readonly matchLabels: Labels;
}

interface Peer {
  readonly podSelector?: Selector;
  readonly namespaceSelector?: Selector;
}

interface IngressRule {
  /** Absent: anybody. */
  readonly from?: readonly Peer[];
  readonly ports: readonly { readonly protocol: "TCP"; readonly port: number }[];
}

export interface NetworkPolicy {
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: {
    readonly podSelector: Selector;
    readonly policyTypes: readonly string[];
    readonly ingress?: readonly IngressRule[];
  };
}

export interface PodPlace {
  readonly namespace: string;
  readonly namespaceLabels: Labels;
  readonly labels: Labels;
}

/** A pod, or an address that is none's: of a node or of the API server. */
export type Sender = PodPlace | "outside";

const KNOWN_FIELDS: Readonly<Record<string, readonly string[]>> = {
  spec: ["podSelector", "policyTypes", "ingress"],
  rule: ["from", "ports"],
  peer: ["podSelector", "namespaceSelector"],
  selector: ["matchLabels"],
};

/** Throws on a field that is not judged here: what was not looked at would seem to allow nothing. */
export function networkPoliciesOf(manifests: readonly Manifest[]): NetworkPolicy[] {
  const policies = manifests.filter(({ kind }) => kind === "NetworkPolicy") as (Manifest & NetworkPolicy)[];
  for (const { spec } of policies) {
    known("spec", spec);
    for (const rule of spec.ingress ?? []) {
      known("rule", rule);
      for (const peer of rule.from ?? []) {
        known("peer", peer);
        for (const selector of Object.values(peer) as Selector[]) known("selector", selector);
      }
    }
  }
  return policies;
}

function known(what: string, value: object): void {
  for (const field of Object.keys(value))
    if (KNOWN_FIELDS[what]?.includes(field) !== true) throw new Error(`a ${what} of a NetworkPolicy has ${field}`);
}

export function selects({ matchLabels }: Selector, labels: Labels): boolean {
  return Object.entries(matchLabels).every(([name, value]) => labels[name] === value);
}

/** A pod that none selects is open. */
export function isIsolated(policies: readonly NetworkPolicy[], pod: PodPlace): boolean {
  return policies.some(
    ({ metadata, spec }) => metadata.namespace === pod.namespace && selects(spec.podSelector, pod.labels),
  );
}

/** "POLICY RULE" of those by which the sender reaches the port, with the rules counted from 0; empty: it is refused. */
export function allowedBy(policies: readonly NetworkPolicy[], pod: PodPlace, port: number, sender: Sender): string[] {
  return policies
    .filter(({ metadata, spec }) => metadata.namespace === pod.namespace && selects(spec.podSelector, pod.labels))
    .flatMap(({ metadata, spec }) =>
      (spec.ingress ?? []).flatMap(({ from, ports }, index) => {
        const isMeant = from === undefined || from.some((peer) => isPeer(peer, metadata.namespace, sender));
        return isMeant && ports.some((one) => one.port === port) ? [`${metadata.name} ${index}`] : [];
      }),
    );
}

function isPeer({ podSelector, namespaceSelector }: Peer, ownNamespace: string, sender: Sender): boolean {
  if (sender === "outside") return false;
  const isInNamespace =
    namespaceSelector === undefined
      ? sender.namespace === ownNamespace
      : selects(namespaceSelector, sender.namespaceLabels);
  return isInNamespace && (podSelector === undefined || selects(podSelector, sender.labels));
}
