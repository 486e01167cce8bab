// How the members of a span volume are made, as its StorageClass said when the volume was made, and which labels and annotations they
// carry of the volume's claim. The rules are stored with the volume, since classes are deleted and recreated. What tools find, own or
// delete objects by is never carried: a member would be taken for the claim that Git has. Pure.

import type { KubeObject } from "../../../contracts/kubernetes/object.ts";
import { GROUP, RECORDS } from "../../../contracts/names.ts";

/** Auto: a member grows in place where its class allows that, and else one is added. */
export const STRATEGIES = ["Auto", "GrowMember", "AddMember"] as const;
export type Strategy = (typeof STRATEGIES)[number];

export interface MemberRules {
  /** StorageClass of the member claims. */
  readonly className: string;
  /** Spare ones among them. */
  readonly maxMembers: number;
  readonly spareMembers: number;
  readonly strategy: Strategy;
  /** What members have of their volume's own claim; absent: nothing. */
  readonly carried?: CarriedKeys;
}

export const MEMBERS_LIMIT = 4;
/** As many as a layout has room for: the larger one that takes others' places comes before they leave. */
export const MERGING_MEMBERS_LIMIT = MEMBERS_LIMIT + 1;

export function recordsOfRules(rules: MemberRules | undefined): Record<string, string> {
  if (rules === undefined) return {};
  return {
    [RECORDS.memberClass]: rules.className,
    [RECORDS.maxMembers]: String(rules.maxMembers),
    [RECORDS.spareMembers]: String(rules.spareMembers),
    [RECORDS.strategy]: rules.strategy,
    ...recordsOfCarried(rules.carried),
  };
}

/** The inverse; undefined where the class is not recorded. What else cannot be read is as a class without it has it. */
export function rulesOfRecords(records: Readonly<Record<string, string>> | undefined): MemberRules | undefined {
  const className = records?.[RECORDS.memberClass];
  if (!className) return undefined;
  const carried = carriedOfRecords(records);
  return {
    className,
    maxMembers: countOf(records[RECORDS.maxMembers], 1, MEMBERS_LIMIT) ?? MEMBERS_LIMIT,
    spareMembers: countOf(records[RECORDS.spareMembers], 0, 1) ?? 0,
    strategy: STRATEGIES.find((strategy) => strategy === records[RECORDS.strategy]) ?? "Auto",
    ...(carried && { carried }),
  };
}

/** A whole number within bounds, both included. */
export function countOf(text: string | undefined, least: number, most: number): number | undefined {
  if (text === undefined || !/^\d{1,3}$/.test(text)) return undefined;
  const count = Number(text);
  return count >= least && count <= most ? count : undefined;
}

interface CarriedKeys {
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
  if (!NAME.test(name) || !isDomain || rest.length > 0) return `"${key}" is not a key of a label or an annotation`;
  if (TRACKING_KEYS.includes(key) || isWithin(domain, TOOL_DOMAINS))
    return `"${key}" is what a deployment tool finds its objects by, and would delete members by; leave it out`;
  if (domain !== RECOMMENDED_DOMAIN && isWithin(domain, RESERVED_DOMAINS))
    return `"${key}" is reserved for Kubernetes or Tidemark, which act by it; leave it out`;
  return undefined;
}

function isWithin(domain: string | undefined, domains: readonly string[]): boolean {
  return domain !== undefined && domains.some((one) => domain === one || domain.endsWith(`.${one}`));
}

function recordsOfCarried(carried: CarriedKeys | undefined): Record<string, string> {
  return {
    ...(carried?.labels.length ? { [RECORDS.memberLabels]: carried.labels.join(",") } : {}),
    ...(carried?.annotations.length ? { [RECORDS.memberAnnotations]: carried.annotations.join(",") } : {}),
  };
}

/** The inverse; undefined: nothing is carried. A list that cannot be read carries nothing: records are written by people, too. */
function carriedOfRecords(records: Readonly<Record<string, string>>): CarriedKeys | undefined {
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

type Texts = Readonly<Record<string, string>>;
type Marked = Pick<KubeObject, "metadata">;

/** What an object of a member has of its claim's labels and annotations. */
export interface Marks {
  readonly labels: Record<string, string>;
  readonly annotations: Record<string, string>;
}

/** What a new object of a member begins with. */
export function marksOf(carried: CarriedKeys, { metadata }: Marked): Marks {
  return {
    labels: chosen(metadata.labels, carried.labels),
    annotations: chosen(metadata.annotations, carried.annotations),
  };
}

/** A merge patch of the member's metadata; null takes a key away. Undefined: it carries what it is to carry. */
/**
 * What an object of a member lacks of its claim's labels and annotations, or has too much; undefined: nothing. Only the keys of the allow-list
 * are checked; one that the claim no longer has goes from the member, too.
 */
export function decideMarks(carried: CarriedKeys, claim: Marked, { metadata }: Marked): object | undefined {
  const labels = changes(carried.labels, claim.metadata.labels, metadata.labels);
  const annotations = changes(carried.annotations, claim.metadata.annotations, metadata.annotations);
  if (labels === undefined && annotations === undefined) return undefined;
  return { ...(labels && { labels }), ...(annotations && { annotations }) };
}

function chosen(texts: Texts = {}, keys: readonly string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).filter(([key]) => keys.includes(key)));
}

function changes(
  keys: readonly string[],
  wanted: Texts = {},
  is: Texts = {},
): Record<string, string | null> | undefined {
  const different = keys.filter((key) => wanted[key] !== is[key]);
  return different.length === 0 ? undefined : Object.fromEntries(different.map((key) => [key, wanted[key] ?? null]));
}
