// What kube-scheduler asks and what it is answered: k8s.io/kube-scheduler/extender/v1, whose fields carry their Go names. Nodes come by
// name alone (nodeCacheCapable: true). Pure.

import * as z from "zod";
import { shortList } from "../../contracts/schema/schema.ts";
import type { ClaimingPod } from "../decide/decide-demand.ts";
import { type FitFailure, fitFailureKey, fitFailureSentence, isUnresolvable } from "../decide/decide-fit.ts";
import type { Score } from "../decide/decide-score.ts";
import type { FilterAnswer, ScoredNode } from "../place-pods.ts";

/** ExtenderFilterResult, of nodes by their names. */
interface FilterResult {
  readonly NodeNames: readonly string[];
  readonly FailedNodes: Readonly<Record<string, string>>;
  readonly FailedAndUnresolvableNodes: Readonly<Record<string, string>>;
  readonly Error: string;
}

export function filterResult({ nodeNames }: ExtenderArgs, { fits, fitFailures, refusal }: FilterAnswer): FilterResult {
  const failed: Record<string, string> = {};
  const unresolvable: Record<string, string> = {};
  // An error makes the scheduler ask again after a back-off of seconds; refused nodes would wait for an object to change.
  if (refusal?.mayPass === false) for (const name of nodeNames) unresolvable[name] = refusal.sentence;
  for (const { fitFailure, most, nodeNames: alike } of groupsOf(fitFailures)) {
    const sentence = fitFailureSentence(fitFailure, most, alike.length);
    const refused = isUnresolvable(fitFailure) ? unresolvable : failed;
    for (const name of alike) refused[name] = sentence;
  }
  return {
    NodeNames: fits,
    FailedNodes: failed,
    FailedAndUnresolvableNodes: unresolvable,
    Error: refusal?.mayPass === true ? refusal.sentence : "",
  };
}

/** Nodes that lack the same, for which there is one sentence. */
interface Group {
  readonly fitFailure: FitFailure;
  /** The most that any of them has. */
  most: number;
  readonly nodeNames: string[];
}

function groupsOf(fitFailures: FilterAnswer["fitFailures"]): Iterable<Group> {
  const groups = new Map<string, Group>();
  for (const { nodeName, fitFailure } of fitFailures) {
    const key = fitFailureKey(fitFailure);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { fitFailure, most: fitFailure.has, nodeNames: [nodeName] });
    else {
      group.most = Math.max(group.most, fitFailure.has);
      group.nodeNames.push(nodeName);
    }
  }
  return groups.values();
}

/** HostPriorityList. */
export function priorityList(scored: readonly ScoredNode[]): { readonly Host: string; readonly Score: Score }[] {
  return scored.map(({ nodeName, score }) => ({ Host: nodeName, Score: score }));
}

const text = z.string().max(253);

/** Kubernetes is made for 5,000 nodes, and a pod has no more volumes than fit into 1.5 MiB. */
const NAMES_LIMIT = 20_000;
const PARTS_LIMIT = 5000;

/**
 * A short list of texts, checked by hand: each question has thousands. A transform or a refinement of zod's would hold them in memory for
 * long.
 */
const texts = z.custom<readonly string[]>(Array.isArray, "expected a list").check(({ value, issues }) => {
  const wrong = (message: string, path: number[]): unknown =>
    issues.push({ code: "custom", message, path, input: value });
  if (!Array.isArray(value)) return;
  if (value.length > NAMES_LIMIT) wrong(`expected at most ${NAMES_LIMIT} elements`, []);
  const other = value.findIndex((one) => typeof one !== "string");
  if (other >= 0) wrong("expected a text", [other]);
});

const volume = z.object({
  name: text,
  persistentVolumeClaim: z.object({ claimName: text }).optional(),
  ephemeral: z.object({}).optional(),
});
const podShape = z.object({
  metadata: z.object({ name: text.min(1), namespace: text.optional(), uid: text.optional() }),
  spec: z.object({ volumes: shortList(volume, PARTS_LIMIT).nullish() }).optional(),
});
const argsShape = z.object({ Pod: podShape, NodeNames: texts.nullish() });

export interface ExtenderArgs {
  /** As it came: see decide-asked-pod.ts for what of it is believed. */
  readonly pod: ClaimingPod;
  readonly nodeNames: readonly string[];
}

/** What came is not a scheduler's question; the message says where. */
export class WireError extends Error {
  override name = "WireError";
}

/** Throws WireError. */
export function readArgs(body: Buffer): ExtenderArgs {
  const read = argsShape.safeParse(parsed(body));
  if (!read.success) {
    const [issue] = read.error.issues;
    throw new WireError(
      `not ExtenderArgs of kube-scheduler: ${issue?.path.join(".") || "the body"}: ${issue?.message}`,
    );
  }
  const { Pod: pod, NodeNames } = read.data;
  if (!NodeNames)
    throw new WireError(
      "the question has no NodeNames; set nodeCacheCapable: true for this extender in the scheduler's configuration",
    );
  return { pod: { metadata: pod.metadata, spec: { volumes: pod.spec?.volumes ?? [] } }, nodeNames: NodeNames };
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString("utf8"));
  } catch (error) {
    throw new WireError(`the body of ${body.length} bytes is not JSON: ${(error as SyntaxError).message}`, {
      cause: error,
    });
  }
}
