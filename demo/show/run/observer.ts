// Watches the claim's Filesystem and FilesystemLayout, and writes into the log what was decided and what became of it, in the objects' own
// words.
import { FILESYSTEMS, type Filesystem, type ScalingStatus } from "../../../src/contracts/kinds/filesystem.ts";
import {
  FILESYSTEM_LAYOUTS,
  type FilesystemLayout,
  type LastOperation,
  type Operation,
} from "../../../src/contracts/kinds/filesystem-layout.ts";
import { formatBytes, parseQuantity } from "../../../src/contracts/quantities/quantity.ts";
import { createReflector } from "../../../src/platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../../src/platform/kube/client/client.ts";
import type { Logger } from "../../../src/platform/process/log.ts";
import { CLAIM } from "../script/demo-claim.ts";
import type { RunClock } from "./run-clock.ts";
import { changesOf, type Decision, type EndedOperation, type RunLog } from "./run-log.ts";

export interface Observer {
  /** The operation that the agent says it is carrying out. */
  runningOperation(): Operation | undefined;
  stop(): Promise<void>;
}

/** Resolves when the objects, as far as they exist, are known. */
export async function startObserver(
  client: KubeClient,
  runLog: RunLog,
  clock: RunClock,
  log: Logger,
): Promise<Observer> {
  const filesystems = createReflector<Filesystem>({
    client,
    resource: FILESYSTEMS,
    log,
    select: { namespace: CLAIM.namespace },
  });
  const layouts = createReflector<FilesystemLayout>({ client, resource: FILESYSTEM_LAYOUTS, log });
  const seen: Seen = { scaling: undefined, decidedAt: undefined, endedAt: undefined };
  const filesystemChanged = (filesystem: Filesystem): void => hearFilesystem(filesystem, seen, runLog, clock);
  const layoutChanged = ({ status }: FilesystemLayout): void => {
    const last = status?.lastOperation;
    if (last === undefined || last.endedAt === seen.endedAt) return;
    seen.endedAt = last.endedAt;
    hearEnd(last, runLog, clock);
  };
  filesystems.subscribe({ added: filesystemChanged, updated: filesystemChanged });
  layouts.subscribe({ added: layoutChanged, updated: layoutChanged });
  filesystems.start();
  layouts.start();
  await Promise.all([filesystems.synced, layouts.synced]);
  return {
    runningOperation: () => layouts.store.list()[0]?.status?.operation ?? undefined,
    stop: async () => void (await Promise.all([filesystems.stop(), layouts.stop()])),
  };
}

/** The last entries of the log, so that each thing is logged once. */
interface Seen {
  scaling: string | undefined;
  decidedAt: string | undefined;
  endedAt: string | undefined;
}

function hearFilesystem({ spec, status }: Filesystem, seen: Seen, runLog: RunLog, clock: RunClock): void {
  const decision = changeDecision(spec.target, seen) ?? heldDecision(status, seen);
  if (decision === undefined || repeats(decision, runLog.decisions.at(-1))) return;
  const atMs = clock.nowMs();
  runLog.decisions.push({ ...decision, atMs });
  const { plan, fromBytes, toBytes, reason, rule, message } = decision;
  const what = plan === "hold" ? "" : `${formatBytes(fromBytes)} → ${formatBytes(toBytes)}  `;
  const by = rule === undefined || message.includes(rule) ? "" : ` (${rule})`;
  runLog.story.push({ atMs, kind: plan, text: `${what}${reason}${by}: ${message}`, label: undefined });
}

/** A target that is written again, while a shrink is being cancelled for it, is one decision. */
function repeats({ plan, reason, fromBytes, toBytes }: Undated, last: Decision | undefined): boolean {
  return last?.plan === plan && last.reason === reason && last.fromBytes === fromBytes && last.toBytes === toBytes;
}

type Undated = Omit<Decision, "atMs">;

/** A hold is logged when its reason is another one. */
function heldDecision(status: Filesystem["status"], seen: Seen): Undated | undefined {
  const { scaling, capacity } = status ?? {};
  if (scaling?.plan !== "hold" || seen.scaling === scaling.reason) return undefined;
  seen.scaling = scaling.reason;
  const capacityBytes = capacity === undefined ? 0 : parseQuantity(capacity);
  return { ...wordsOf(scaling), plan: "hold", fromBytes: capacityBytes, toBytes: capacityBytes };
}

/** A target says why. One that takes the place of another has no reason of its own. */
function changeDecision(target: Filesystem["spec"]["target"], seen: Seen): Undated | undefined {
  if (target === undefined || target.decidedAt === seen.decidedAt) return undefined;
  seen.decidedAt = target.decidedAt;
  const { rule, reason, message } = target;
  if (reason === undefined || message === undefined) return undefined;
  const [fromBytes, toBytes] = [parseQuantity(target.from), parseQuantity(target.size)];
  return { rule, reason, message, plan: toBytes > fromBytes ? "extend" : "shrink", fromBytes, toBytes };
}

function wordsOf({ rule, reason, message }: ScalingStatus): Pick<Decision, "rule" | "reason" | "message"> {
  return { rule, reason, message };
}

const OUTCOME_TEXT: Readonly<Record<EndedOperation["outcome"], string>> = {
  Succeeded: "finished",
  Cancelled: "cancelled",
  FloorReached: "ended at its floor",
  Failed: "failed",
};

function hearEnd(last: LastOperation, runLog: RunLog, clock: RunClock): void {
  const operation = endedOperation(last, runLog.decisions, clock);
  runLog.operations.push(operation);
  if (changesOf(runLog.operations).at(-1) !== operation) return;
  if (operation.emergency) runLog.decisions.push(emergencyDecision(operation));
  const { kind, outcome, startedAtMs, endedAtMs, reachedBytes, message } = operation;
  const took = ((endedAtMs - startedAtMs) / 1000).toFixed(endedAtMs - startedAtMs < 1000 ? 3 : 1);
  const why = outcome === "Succeeded" ? "" : `: ${message}`;
  const emergency = operation.emergency ? " from the emergency grant" : "";
  const text = `${kind}${emergency} ${OUTCOME_TEXT[outcome]} at ${formatBytes(reachedBytes)} after ${took} s${why}`;
  runLog.story.push({ atMs: endedAtMs, kind: "note", text, label: undefined });
}

function endedOperation(last: LastOperation, decisions: readonly Decision[], clock: RunClock): EndedOperation {
  const toBytes = parseQuantity(last.to);
  const plan = last.kind === "Extend" ? "extend" : "shrink";
  const decision = decisions.findLast((candidate) => candidate.plan === plan && candidate.toBytes === toBytes);
  return {
    startedAtMs: clock.ofTimestamp(last.startedAt),
    endedAtMs: clock.ofTimestamp(last.endedAt),
    kind: last.kind,
    outcome: last.outcome,
    fromBytes: parseQuantity(last.from),
    toBytes,
    reachedBytes: parseQuantity(last.reached),
    reason: last.reason ?? decision?.rule ?? decision?.reason ?? "",
    message: last.message ?? "",
    emergency: last.emergency ?? false,
  };
}

/** The agent decided this one alone, by what it was granted. */
function emergencyDecision({ startedAtMs, fromBytes, toBytes, message }: EndedOperation): Decision {
  return { atMs: startedAtMs, plan: "extend", rule: undefined, reason: "EmergencySpent", message, fromBytes, toBytes };
}
