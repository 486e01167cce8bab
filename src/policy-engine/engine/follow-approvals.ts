// What an approval that is written, or taken back, means to the engine: the volumes of its namespace are decided again, and what their plans
// make of approvals stands on these. It decides nothing.
import { objectKey } from "../../contracts/kubernetes/object.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { Leadership } from "../apply/leadership.ts";
import type { ChangePlan, Plan } from "../decide/plan.ts";
import type { ClaimFacts } from "../facts/facts.ts";
import { createApprovalBook } from "../gather/approval-book.ts";
import type { Caches } from "../gather/caches.ts";
import { createApprovalReports } from "../report/approval-reports.ts";
import { createApprovalUses } from "../report/approval-uses.ts";

interface ApprovingParts {
  readonly client: KubeClient;
  readonly caches: Pick<Caches, "approvals" | "claims" | "layouts">;
  readonly leadership: Pick<Leadership, "isLeader">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Many changes to a namespace's approvals have its volumes decided again once; another time after this long. */
const APPROVED_AGAIN_MS = 500;

/** What approvals are there, which decisions need them, and what their status says. */
export function followApprovals(
  { client, caches, leadership, clock, log }: ApprovingParts,
  evaluateAll: (handles: Iterable<string>) => Promise<void>,
) {
  const { layouts, claims } = caches;
  const changed = new Set<string>();
  /** Set from the first change until what it asked for is decided: another round then begins with all that came in between. */
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  const handlesIn = (namespace: string): string[] =>
    claims.store
      .byIndex("namespace", namespace)
      .flatMap(({ metadata }) => layouts.store.byIndex("claim", objectKey(metadata)))
      .map(({ metadata }) => metadata.name);
  const decideChanged = async (): Promise<void> => {
    const handles = [...changed].flatMap(handlesIn);
    changed.clear();
    await evaluateAll(handles);
    timer = undefined;
    reports.soon();
    if (changed.size > 0) decideSoon();
  };
  const decideSoon = (): void => {
    if (!isStopped) timer ??= setTimeout(() => void decideChanged(), APPROVED_AGAIN_MS).unref();
  };
  const book = createApprovalBook(
    caches,
    (namespace) => {
      changed.add(namespace);
      decideSoon();
    },
    clock.nowMs,
  );
  const uses = createApprovalUses();
  const { isLeader } = leadership;
  const isThere = (handle: string): boolean => layouts.store.get(handle) !== undefined;
  const reports = createApprovalReports({
    ...{ client, approvals: book, uses, isThere, isLeader },
    nowMs: clock.nowMs,
    log,
  });
  return {
    book,
    decided: (handle: string, claim: ClaimFacts, plan: Plan): void => {
      if (uses.noted(handle, claim, plan)) reports.soon();
    },
    written: (claim: ClaimFacts, plan: ChangePlan): void => {
      if (uses.written(claim, plan)) reports.soon();
    },
    soon: reports.soon,
    stop: async (): Promise<void> => {
      isStopped = true;
      clearTimeout(timer);
      await reports.stop();
    },
  };
}
