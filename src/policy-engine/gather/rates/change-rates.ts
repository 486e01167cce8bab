// How often sizes change, for the ceilings on rates: when the changes of each namespace began, what is under way now, and what waits for its
// turn. Events update the counts, so that reading one costs nothing. A change counts from its decision; of one that an earlier engine made,
// and that is over, only the end is known. It decides nothing.
import type { Filesystem } from "../../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../../contracts/kinds/filesystem-layout.ts";
import type { PersistentVolumeClaim } from "../../../contracts/kubernetes/resources.ts";
import { type Clock, instantOf } from "../../../platform/process/clock.ts";
import { beginsChange, type Plan, type WaitsFor } from "../../decide/plan.ts";
import type { Caches } from "../caches.ts";
import { type Change, datedAtMs } from "../operation-times.ts";
import { changeUnderWay, type UnderWay } from "../volume-stake.ts";
import { LastHour } from "./last-hour.ts";
import { OperationSlots, type Waiting } from "./operation-slots.ts";
import { nodeOf, type OperationOfVolume, type RatesLedger } from "./rates-draft.ts";

export interface ChangeRates extends RatesLedger {
  /** Decisions begin: what nothing was heard of for long no longer counts as under way. */
  forgetSilent(): void;
  /** A decision begins. `isPending`: what was decided before it is being written, or stands and is not seen to begin yet. */
  begin(handle: string, isPending: boolean): void;
  /** This was decided: a change counts from now on. The next decision knows whether it was written. */
  decided(handle: string, plan: Plan): void;
  /** Nothing can be decided of it: it gives up its place among those that wait, or all behind it would wait with it. */
  undecided(handle: string): void;
  /** A change that is over; each is heard of once. */
  ended(handle: string, change: Change): void;
  /** Its node says that the operation goes on. */
  goesOn(handle: string): void;
}

/** What nothing was heard of for this long no longer counts as under way: its node may be gone, and it may never be carried out. */
const SILENCE_LIMIT_MS = 600_000;
const HOUR_MS = 3_600_000;

/** Of a volume that changes, has just done so, or waits for its turn; the many others have none. */
interface Account {
  readonly handle: string;
  /** Undefined: its layout is not seen yet. */
  namespace: string | undefined;
  nodeName: string | undefined;
  /** What ended before its layout was seen. */
  unplaced: number[];
  /** Just decided; being written; shown by its objects: each by itself makes it count as under way. */
  isDecided: boolean;
  isPending: boolean;
  isRecorded: boolean;
  /** When what is under way began, as its namespace counts it. */
  begunAtMs: number | undefined;
  /** That was decided, and nothing shows that it was written. */
  isProvisional: boolean;
  /** When one began whose end has not been heard of: that end is not a second change. */
  unmatchedMs: number | undefined;
  /** It is counted on its node and in the cluster. */
  runs: boolean;
  waits: Waiting | undefined;
}

export function createChangeRates(
  caches: Pick<Caches, "layouts" | "filesystems" | "claims">,
  clock: Clock,
): ChangeRates {
  const rates = new Rates(caches, clock);
  const { layouts, filesystems, claims } = caches;
  const see = (layout: FilesystemLayout): void => rates.see(layout);
  layouts.subscribe({ added: see, updated: see, deleted: ({ metadata }) => rates.close(metadata.name) });
  const seen = ({ metadata: { namespace, name } }: Filesystem | PersistentVolumeClaim): void => {
    for (const layout of layouts.store.byIndex("claim", `${namespace}/${name}`)) rates.see(layout);
  };
  filesystems.subscribe({ added: seen, updated: seen, deleted: seen });
  claims.subscribe({ added: seen, updated: seen });
  return {
    nthLast: (namespace, n) => rates.nthLast(namespace, n),
    running: (place) => rates.slots.running(place),
    waitingBefore: (place, turn, running) => rates.slots.waitingBefore(place, turn, running),
    operationOf: (handle) => rates.operationOf(handle),
    forgetSilent: () => rates.forgetSilent(clock.monotonicMs()),
    begin: (handle, isPending) => rates.begin(handle, isPending),
    decided: (handle, plan) => rates.decided(handle, plan),
    undecided: (handle) => rates.undecided(handle),
    ended: (handle, change) => rates.ended(handle, change),
    goesOn: (handle) => rates.goesOn(handle),
  };
}

class Rates {
  readonly slots = new OperationSlots();
  readonly #caches: Pick<Caches, "layouts" | "filesystems" | "claims">;
  readonly #clock: Clock;
  readonly #accounts = new Map<string, Account>();
  readonly #namespaces = new Map<string, LastHour>();
  /** Until when what the records show counts as under way, the oldest first. */
  readonly #heardUntilMs = new Map<string, number>();
  /** How far what is under way had come when it was last heard of: whatever else is written about a volume says nothing of it. */
  readonly #progress = new Map<string, string>();

  constructor(caches: Pick<Caches, "layouts" | "filesystems" | "claims">, clock: Clock) {
    this.#caches = caches;
    this.#clock = clock;
  }

  nthLast(namespace: string, n: number): number | undefined {
    return this.#namespaces.get(namespace)?.nthLast(n, this.#clock.monotonicMs());
  }

  operationOf(handle: string): OperationOfVolume | undefined {
    return this.#accounts.get(handle);
  }

  see(layout: FilesystemLayout): void {
    const at = instantOf(this.#clock);
    this.forgetSilent(at.monotonicMs);
    const { namespace, name } = layout.spec.claimRef ?? {};
    const key = `${namespace}/${name}`;
    const { filesystems, claims } = this.#caches;
    const underWay = changeUnderWay(layout, filesystems.store.get(key), claims.store.get(key));
    const sinceMs = Number.isNaN(underWay?.sinceMs) ? at.nowMs : (underWay?.sinceMs ?? at.nowMs);
    const begunAtMs = datedAtMs(sinceMs, at);
    const handle = layout.metadata.name;
    const counts = underWay !== undefined && this.#isHeard(handle, underWay, begunAtMs, at.monotonicMs);
    if (!counts) this.#heardUntilMs.delete(handle);
    if (underWay === undefined) this.#progress.delete(handle);
    const account = counts ? this.#accountOf(handle) : this.#accounts.get(handle);
    if (account === undefined) return;
    this.#place(account, namespace, nodeOf(layout));
    account.isRecorded = counts;
    if (counts) this.#confirm(account, begunAtMs);
    this.#settle(account, at.monotonicMs);
  }

  /** Whether something was heard of it within the limit. */
  #isHeard(handle: string, { isRunning, progress }: UnderWay, begunAtMs: number, nowMs: number): boolean {
    if (this.#progress.get(handle) === progress) return this.#heardUntilMs.has(handle);
    this.#progress.set(handle, progress);
    this.#heardUntilMs.delete(handle);
    if (!isRunning && nowMs - begunAtMs >= SILENCE_LIMIT_MS) return false;
    this.#heardUntilMs.set(handle, nowMs + SILENCE_LIMIT_MS);
    return true;
  }

  begin(handle: string, isPending: boolean): void {
    const account = isPending ? this.#accountOf(handle) : this.#accounts.get(handle);
    if (account === undefined) return;
    const nowMs = this.#clock.monotonicMs();
    account.isDecided = false;
    account.isPending = isPending;
    if (isPending) this.#confirm(account, nowMs);
    this.#settle(account, nowMs);
  }

  decided(handle: string, plan: Plan): void {
    const waitsFor = plan.kind === "hold" ? plan.waits : undefined;
    const begins = beginsChange(plan);
    const account = begins || waitsFor !== undefined ? this.#accountOf(handle) : this.#accounts.get(handle);
    if (account === undefined) return;
    this.#queue(account, waitsFor);
    const nowMs = this.#clock.monotonicMs();
    if (begins) {
      account.isDecided = true;
      account.isProvisional ||= account.begunAtMs === undefined;
      if (account.begunAtMs === undefined) this.#count(account, nowMs);
    }
    this.#settle(account, nowMs);
  }

  undecided(handle: string): void {
    const account = this.#accounts.get(handle);
    if (account?.waits === undefined) return;
    this.#queue(account, undefined);
    this.#settle(account, this.#clock.monotonicMs());
  }

  ended(handle: string, { atMs }: Change): void {
    const nowMs = this.#clock.monotonicMs();
    if (atMs <= nowMs - HOUR_MS) return;
    const account = this.#accountOf(handle);
    // An end of the same time as the begin may be another change's: it counts.
    const isCounted = account.unmatchedMs !== undefined && !account.isProvisional && atMs > account.unmatchedMs;
    if (isCounted) account.unmatchedMs = undefined;
    else if (account.namespace === undefined) account.unplaced.push(atMs);
    else this.#timesOf(account.namespace).add(atMs);
    this.#settle(account, nowMs);
  }

  goesOn(handle: string): void {
    if (!this.#progress.has(handle)) return;
    const nowMs = this.#clock.monotonicMs();
    const wasHeard = this.#heardUntilMs.delete(handle);
    this.#heardUntilMs.set(handle, nowMs + SILENCE_LIMIT_MS);
    if (wasHeard) return;
    const account = this.#accountOf(handle);
    account.isRecorded = true;
    this.#confirm(account, nowMs);
    this.#settle(account, nowMs);
  }

  /** What it has changed counts on: its namespace did that. */
  close(handle: string): void {
    const account = this.#accounts.get(handle);
    if (account?.runs === true) this.slots.end(account.nodeName);
    if (account?.waits !== undefined) this.slots.leave(account.waits);
    this.#heardUntilMs.delete(handle);
    this.#progress.delete(handle);
    this.#accounts.delete(handle);
  }

  #accountOf(handle: string): Account {
    const known = this.#accounts.get(handle);
    if (known !== undefined) return known;
    const layout = this.#caches.layouts.store.get(handle);
    const account: Account = {
      handle,
      namespace: layout?.spec.claimRef?.namespace,
      nodeName: layout && nodeOf(layout),
      unplaced: [],
      isDecided: false,
      isPending: false,
      isRecorded: false,
      begunAtMs: undefined,
      isProvisional: false,
      unmatchedMs: undefined,
      runs: false,
      waits: undefined,
    };
    this.#accounts.set(handle, account);
    return account;
  }

  #place(account: Account, namespace: string | undefined, nodeName: string | undefined): void {
    if (account.nodeName !== nodeName) {
      if (account.runs) this.slots.end(account.nodeName);
      if (account.runs) this.slots.start(nodeName);
      account.nodeName = nodeName;
      this.#queue(account, undefined);
    }
    if (account.namespace !== undefined || namespace === undefined) return;
    account.namespace = namespace;
    for (const atMs of account.unplaced) this.#timesOf(namespace).add(atMs);
    account.unplaced = [];
  }

  #queue(account: Account, waitsFor: WaitsFor | undefined): void {
    if (waitsFor === undefined) {
      if (account.waits !== undefined) this.slots.leave(account.waits);
      account.waits = undefined;
      return;
    }
    const { at, limit, direction } = waitsFor;
    account.waits = this.slots.wait(account.waits, at === "node" ? account.nodeName : undefined, limit, direction);
  }

  /** It was written, or has begun. */
  #confirm(account: Account, begunAtMs: number): void {
    account.isProvisional = false;
    if (account.begunAtMs === undefined) this.#count(account, begunAtMs);
  }

  #count(account: Account, begunAtMs: number): void {
    account.begunAtMs = begunAtMs;
    account.unmatchedMs = begunAtMs;
    if (account.namespace !== undefined) this.#timesOf(account.namespace).add(begunAtMs);
  }

  /** What was decided and not written did not begin. */
  #takeBack(account: Account): void {
    if (account.begunAtMs !== undefined && account.namespace !== undefined)
      this.#timesOf(account.namespace).remove(account.begunAtMs);
    account.isProvisional = false;
    account.unmatchedMs = undefined;
  }

  #settle(account: Account, monotonicMs: number): void {
    const { isDecided, isPending, isRecorded, unplaced, waits } = account;
    const runs = isDecided || isPending || isRecorded;
    if (runs !== account.runs) {
      if (runs) this.slots.start(account.nodeName);
      else this.slots.end(account.nodeName);
      account.runs = runs;
    }
    if (runs) return;
    if (account.isProvisional) this.#takeBack(account);
    account.begunAtMs = undefined;
    const awaitsEnd = (account.unmatchedMs ?? Number.NEGATIVE_INFINITY) > monotonicMs - HOUR_MS;
    if (!awaitsEnd && unplaced.length === 0 && waits === undefined) this.#accounts.delete(account.handle);
  }

  forgetSilent(nowMs: number): void {
    for (const [handle, untilMs] of this.#heardUntilMs) {
      if (untilMs > nowMs) return;
      this.#heardUntilMs.delete(handle);
      const account = this.#accounts.get(handle);
      if (account === undefined) continue;
      account.isRecorded = false;
      this.#settle(account, nowMs);
    }
  }

  /** Those that were not asked for since longest are first: one that has nothing left is forgotten. */
  #timesOf(namespace: string): LastHour {
    const times = this.#namespaces.get(namespace) ?? new LastHour();
    this.#namespaces.delete(namespace);
    this.#namespaces.set(namespace, times);
    const nowMs = this.#clock.monotonicMs();
    for (const [name, { latestMs }] of this.#namespaces) {
      if (name === namespace || latestMs > nowMs - HOUR_MS) break;
      this.#namespaces.delete(name);
    }
    return times;
  }
}
