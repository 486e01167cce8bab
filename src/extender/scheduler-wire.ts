// The JSON of kube-scheduler's extender v1 (k8s.io/kube-scheduler/extender/v1, whose fields carry their Go names): what it asks, read and
// checked, and what it is answered. Pure.
import { z } from "zod";
import type { ClaimingPod } from "./decide-demand.ts";
import { isUnresolvable, type Misfit, misfitKey, misfitSentence } from "./misfit.ts";
import type { FilterAnswer, ScoredNode } from "./placement.ts";

const text = z.string().max(253);
/** A prefix that is a DNS name, a slash, and a name of 63. */
const key = z.string().max(317);

const podShape = z.object({
  metadata: z.object({ name: text.min(1), namespace: text.optional(), uid: text.optional() }),
  spec: z
    .object({
      volumes: z
        .array(
          z.object({
            name: text,
            persistentVolumeClaim: z.object({ claimName: text }).optional(),
            ephemeral: z.object({}).optional(),
          }),
        )
        .nullish(),
      tolerations: z
        .array(z.object({ key: key.optional(), operator: text.optional(), effect: text.optional() }))
        .nullish(),
    })
    .optional(),
});

const argsShape = z.object({
  Pod: podShape,
  NodeNames: z.array(z.string()).nullish(),
  Nodes: z.object({ items: z.array(z.object({ metadata: z.object({ name: z.string() }) })).nullish() }).nullish(),
});

export interface ExtenderArgs {
  readonly pod: ClaimingPod;
  readonly nodeNames: readonly string[];
  /** The nodes as they came, where the scheduler sends them whole (nodeCacheCapable: false); the answer is of the same form. */
  readonly nodes: ReadonlyMap<string, unknown> | undefined;
}

/** What came is no question of a scheduler; the message says where. */
export class WireError extends Error {
  override name = "WireError";
}

/** Throws WireError. */
export function readArgs(body: string): ExtenderArgs {
  const json = parseJson(body);
  const read = argsShape.safeParse(json);
  if (!read.success) {
    const [issue] = read.error.issues;
    throw new WireError(`no ExtenderArgs of kube-scheduler: ${issue?.path.join(".") || "the body"}: ${issue?.message}`);
  }
  const { Pod: pod, NodeNames, Nodes } = read.data;
  if (!NodeNames && !Nodes)
    throw new WireError("no ExtenderArgs of kube-scheduler: it names no nodes, neither as NodeNames nor as Nodes");
  const names = NodeNames ?? (Nodes?.items ?? []).map(({ metadata }) => metadata.name);
  const claiming: ClaimingPod = {
    metadata: pod.metadata,
    spec: { volumes: pod.spec?.volumes ?? [], tolerations: pod.spec?.tolerations ?? [] },
  };
  return { pod: claiming, nodeNames: names, nodes: NodeNames ? undefined : wholeNodes(json, names) };
}

function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch (error) {
    throw new WireError(`the body of ${body.length} characters is no JSON: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

function wholeNodes(json: unknown, names: readonly string[]): ReadonlyMap<string, unknown> {
  const { items } = (json as { Nodes: { items?: unknown[] } }).Nodes;
  return new Map(names.map((name, index) => [name, items?.[index]]));
}

/** ExtenderFilterResult. */
export interface FilterResult {
  readonly NodeNames?: readonly string[];
  readonly Nodes?: { readonly items: readonly unknown[] };
  readonly FailedNodes: Readonly<Record<string, string>>;
  readonly FailedAndUnresolvableNodes: Readonly<Record<string, string>>;
  readonly Error: string;
}

export function filterResult(
  { nodeNames, nodes }: ExtenderArgs,
  { fits, misfits, refusal }: FilterAnswer,
): FilterResult {
  const failed: Record<string, string> = {};
  const unresolvable: Record<string, string> = {};
  // An error makes the scheduler ask again after a back-off of seconds; refused nodes would wait for an object to change.
  if (refusal?.mayPass === false) for (const name of nodeNames) unresolvable[name] = refusal.sentence;
  const sentenceOf = sentencesOf(misfits.map(({ misfit }) => misfit));
  for (const { nodeName, misfit } of misfits)
    (isUnresolvable(misfit) ? unresolvable : failed)[nodeName] = sentenceOf(misfit);
  const offered = nodes === undefined ? { NodeNames: fits } : { Nodes: { items: fits.map((name) => nodes.get(name)) } };
  return {
    ...offered,
    FailedNodes: failed,
    FailedAndUnresolvableNodes: unresolvable,
    Error: refusal?.mayPass === true ? refusal.sentence : "",
  };
}

/** One sentence for all that lack the same. */
function sentencesOf(misfits: readonly Misfit[]): (misfit: Misfit) => string {
  const groups = new Map<string, { most: number; count: number; sentence?: string }>();
  for (const misfit of misfits) {
    const key = misfitKey(misfit);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { most: misfit.has, count: 1 });
    else {
      group.most = Math.max(group.most, misfit.has);
      group.count += 1;
    }
  }
  return (misfit) => {
    const group = groups.get(misfitKey(misfit)) ?? { most: misfit.has, count: 1 };
    group.sentence ??= misfitSentence(misfit, group.most, group.count);
    return group.sentence;
  };
}

/** HostPriorityList. */
export function priorityList(scored: readonly ScoredNode[]): { readonly Host: string; readonly Score: number }[] {
  return scored.map(({ nodeName, score }) => ({ Host: nodeName, Score: score }));
}
