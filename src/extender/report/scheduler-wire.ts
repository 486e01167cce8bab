// What kube-scheduler is answered (k8s.io/kube-scheduler/extender/v1, whose fields carry their Go names). Pure.
import type { Score } from "../decide/decide-score.ts";
import { isUnresolvable, type Misfit, misfitKey, misfitSentence } from "../decide/misfit.ts";
import type { FilterAnswer, ScoredNode } from "../place-pods.ts";
import type { ExtenderArgs } from "./read-args.ts";

/** ExtenderFilterResult; Nodes is beside it, where nodes came whole. */
export interface FilterResult {
  readonly NodeNames?: readonly string[];
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
  for (const { misfit, most, nodeNames: alike } of groupsOf(misfits)) {
    const sentence = misfitSentence(misfit, most, alike.length);
    const refused = isUnresolvable(misfit) ? unresolvable : failed;
    for (const name of alike) refused[name] = sentence;
  }
  return {
    ...(nodes === undefined ? { NodeNames: fits } : {}),
    FailedNodes: failed,
    FailedAndUnresolvableNodes: unresolvable,
    Error: refusal?.mayPass === true ? refusal.sentence : "",
  };
}

/** The same as JSON; whole nodes as they came. */
export function filterBody(args: ExtenderArgs, answer: FilterAnswer): string | Buffer {
  const result = JSON.stringify(filterResult(args, answer));
  if (args.nodes === undefined) return result;
  const items = answer.fits.flatMap((name) => args.nodes?.get(name) ?? []);
  const separated = items.flatMap((item, index) => (index === 0 ? [item] : [Buffer.from(","), item]));
  return Buffer.concat([Buffer.from('{"Nodes":{"items":['), ...separated, Buffer.from(`]},${result.slice(1)}`)]);
}

/** Nodes that lack the same, for which there is one sentence. */
interface Group {
  readonly misfit: Misfit;
  /** The most that any of them has. */
  most: number;
  readonly nodeNames: string[];
}

function groupsOf(misfits: FilterAnswer["misfits"]): Iterable<Group> {
  const groups = new Map<string, Group>();
  for (const { nodeName, misfit } of misfits) {
    const key = misfitKey(misfit);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { misfit, most: misfit.has, nodeNames: [nodeName] });
    else {
      group.most = Math.max(group.most, misfit.has);
      group.nodeNames.push(nodeName);
    }
  }
  return groups.values();
}

/** HostPriorityList. */
export function priorityList(scored: readonly ScoredNode[]): { readonly Host: string; readonly Score: Score }[] {
  return scored.map(({ nodeName, score }) => ({ Host: nodeName, Score: score }));
}
