// Which labels and annotations of a claim its members carry: an allow-list of keys that the StorageClass names. What tools find, own or
// delete objects by is never carried: a member would be taken for the claim that Git has. Pure.
import { GROUP, RECORDS } from "../../api/names.ts";

export interface CarriedKeys {
  readonly labels: readonly string[];
  readonly annotations: readonly string[];
}

/** Of labels, and of annotations: each of them is written to every member. */
const KEYS_LIMIT = 16;
const DOMAIN_LENGTH_LIMIT = 253;
const NAME = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
const DOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/** Kubernetes' recommended labels; the other domains of Kubernetes steer its own parts. */
const RECOMMENDED_DOMAIN = "app.kubernetes.io";
const TRACKING_KEYS = [`${RECOMMENDED_DOMAIN}/instance`, `${RECOMMENDED_DOMAIN}/managed-by`];
/** With all domains below them. */
const TOOL_DOMAINS = ["argoproj.io", "fluxcd.io", "helm.sh", "kustomize.io", "cattle.io", "kapp.k14s.io"];
const RESERVED_DOMAINS = ["kubernetes.io", "k8s.io", GROUP];

/** The keys of a list, in order, each once; a text says what is wrong with which of them. */
export function parseCarriedKeys(list: string): string[] | string {
  const keys = [...new Set(list.split(",").map((key) => key.trim()))].filter((key) => key !== "").sort();
  if (keys.length > KEYS_LIMIT) return `it has ${keys.length} keys, and ${KEYS_LIMIT} are the most`;
  for (const key of keys) {
    const problem = problemOf(key);
    if (problem !== undefined) return problem;
  }
  return keys;
}

function problemOf(key: string): string | undefined {
  const [name = "", domain, ...rest] = key.split("/").reverse();
  const isDomain = domain === undefined || (domain.length <= DOMAIN_LENGTH_LIMIT && DOMAIN.test(domain));
  if (!NAME.test(name) || !isDomain || rest.length > 0) return `"${key}" is no key of a label or an annotation`;
  if (TRACKING_KEYS.includes(key) || isWithin(domain, TOOL_DOMAINS))
    return `"${key}" is what a deployment tool finds its objects by, and would delete members by; leave it out`;
  if (domain !== RECOMMENDED_DOMAIN && isWithin(domain, RESERVED_DOMAINS))
    return `"${key}" is reserved for Kubernetes or Tidemark, which act by it; leave it out`;
  return undefined;
}

function isWithin(domain: string | undefined, domains: readonly string[]): boolean {
  return domain !== undefined && domains.some((one) => domain === one || domain.endsWith(`.${one}`));
}

export function recordsOfCarried(carried: CarriedKeys | undefined): Record<string, string> {
  return {
    ...(carried?.labels.length ? { [RECORDS.memberLabels]: carried.labels.join(",") } : {}),
    ...(carried?.annotations.length ? { [RECORDS.memberAnnotations]: carried.annotations.join(",") } : {}),
  };
}

/** The inverse; undefined: nothing is carried. A list that cannot be read carries nothing: records are written by people, too. */
export function carriedOfRecords(records: Readonly<Record<string, string>>): CarriedKeys | undefined {
  const keysOf = (record: string): string[] => {
    const keys = parseCarriedKeys(records[record] ?? "");
    return typeof keys === "string" ? [] : keys;
  };
  return carriedKeys(keysOf(RECORDS.memberLabels), keysOf(RECORDS.memberAnnotations));
}

/** Undefined: neither. */
export function carriedKeys(labels: readonly string[], annotations: readonly string[]): CarriedKeys | undefined {
  return labels.length === 0 && annotations.length === 0 ? undefined : { labels, annotations };
}
