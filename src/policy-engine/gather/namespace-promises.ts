// What each namespace's filesystems have been promised, added up: sizes, targets under way, grants. Changes update the sums, so that
// reading one costs nothing. What a node may still act on counts: a target until it has ended, a grant until the agent has seen that it was
// taken back. It decides nothing.

import type { Filesystem } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { EMERGENCY_LIFE_MS } from "../../contracts/kinds/grant.ts";
import type { PersistentVolumeClaim } from "../../contracts/kubernetes/resources.ts";
import type { ReadableStore } from "../../platform/kube/cache/store.ts";
import type { Clock } from "../../platform/process/clock.ts";
import { type Candidate, promisedBytes, type Stake, shareOf } from "../sizing/namespace-budget.ts";
import type { Caches } from "./caches.ts";
import type { PromisesLedger } from "./promises-draft.ts";
import { type HeldGrant, requestedBytes, standingGrant, takenBytes } from "./volume-stake.ts";

export interface NamespacePromises extends PromisesLedger {
  /** The largest size that the budget lets this one's grant have. */
  grantShare(handle: string, budgetBytes: number): number;
  /** A decision begins: what is still on its way to the API server, and what time has ended. */
  begin(handle: string, pendingBytes: number): void;
  /** An extend was decided: it counts from now on, until the next decision knows what became of it. */
  extending(handle: string, sizeBytes: number): void;
  requesting(handle: string, candidate: Omit<Candidate, "grant">): void;
  /** A grant is being written, or taken back (0 bytes): it counts from now on, seen on its layout or not. */
  granting(handle: string, sizeBytes: number, epoch: number): void;
}

/** What was written and is not seen after this long was not written. */
const WRITE_SEEN_LIMIT_MS = 30_000;

/**
 * Of a grant whose node has not seen that it was taken back: it may have read the grant right before, and counts from then. The rest is
 * for two clocks that do not run alike.
 */
const TAKEN_BACK_LIMIT_MS = EMERGENCY_LIFE_MS + 60_000;

/** A grant that is on the layout no more; undefined generation: it is not there yet. */
interface OtherGrant extends HeldGrant {
  /** On the monotonic clock; from then on it cannot be spent. */
  readonly endsAtMs: number;
  /** The layout's generation since which it is not there: an agent that has observed this one knows. */
  readonly goneAtGeneration: number | undefined;
}

interface Account extends Stake {
  readonly namespace: NamespaceSum;
  /** Of its claim's StorageClass, in its namespace. */
  ofClass: OverSum;
  /** What its claim requests. */
  requestBytes: number;
  /** What it is promised more than that. */
  overBytes: number;
  recordedBytes: number;
  /** Decided or being written; 0: nothing is. */
  extendingBytes: number;
  standing: HeldGrant | undefined;
  others: readonly OtherGrant[];
  takenBytes: number;
  grantedBytes: number;
  candidateBytes: number;
  urgency: number;
}

interface OverSum {
  overBytes: number;
}

interface NamespaceSum extends OverSum {
  readonly name: string;
  readonly classes: Map<string, OverSum>;
  readonly accounts: Set<Account>;
  promisedBytes: number;
  /** The same if each had its candidate. */
  wantedBytes: number;
}

export function createNamespacePromises(
  { layouts, filesystems, claims }: Pick<Caches, "layouts" | "filesystems" | "claims">,
  { monotonicMs }: Pick<Clock, "monotonicMs">,
): NamespacePromises {
  const book: Book = {
    accounts: new Map(),
    sums: new Map(),
    filesystems: filesystems.store,
    claims: claims.store,
    monotonicMs,
  };
  follow(book, layouts, filesystems, claims);
  const withAccount = (handle: string, change: (account: Account) => void): void => {
    const account = book.accounts.get(handle);
    if (account !== undefined) change(account);
  };
  return {
    ...ledgerOf(book),
    grantShare: (handle, budgetBytes) => {
      const account = book.accounts.get(handle);
      if (account === undefined) return Number.NaN;
      const { wantedBytes, accounts } = account.namespace;
      return wantedBytes <= budgetBytes ? Number.POSITIVE_INFINITY : shareOf(account, accounts, budgetBytes);
    },
    begin: (handle, pendingBytes) =>
      withAccount(handle, (account) => {
        const nowMs = monotonicMs();
        if (account.others.length > 0) account.others = account.others.filter(({ endsAtMs }) => endsAtMs > nowMs);
        account.extendingBytes = pendingBytes;
        addUp(account);
      }),
    extending: (handle, sizeBytes) =>
      withAccount(handle, (account) => {
        account.extendingBytes = Math.max(account.extendingBytes, sizeBytes);
        addUp(account);
      }),
    requesting: (handle, { candidateBytes, urgency }) =>
      withAccount(handle, (account) => addUp(account, candidateBytes, urgency)),
    granting: (handle, sizeBytes, epoch) =>
      withAccount(handle, (account) => {
        const written = {
          sizeBytes,
          epoch,
          endsAtMs: monotonicMs() + WRITE_SEEN_LIMIT_MS,
          goneAtGeneration: undefined,
        };
        account.others = [...account.others, written];
        addUp(account);
      }),
  };
}

interface Book {
  readonly accounts: Map<string, Account>;
  readonly sums: Map<string, NamespaceSum>;
  readonly filesystems: ReadableStore<Filesystem>;
  readonly claims: ReadableStore<PersistentVolumeClaim>;
  readonly monotonicMs: () => number;
}

/** What is seen of each filesystem: its layout, its target, and its claim. */
function follow(
  book: Book,
  layouts: Caches["layouts"],
  filesystems: Caches["filesystems"],
  claims: Caches["claims"],
): void {
  layouts.subscribe({
    added: (layout) => seeLayout(book, layout),
    updated: (layout) => seeLayout(book, layout),
    deleted: ({ metadata }) => close(book, metadata.name),
  });
  const seen = ({ metadata: { namespace, name } }: Filesystem | PersistentVolumeClaim): void => {
    for (const layout of layouts.store.byIndex("claim", `${namespace}/${name}`)) seeLayout(book, layout);
  };
  filesystems.subscribe({ added: seen, updated: seen, deleted: seen });
  claims.subscribe({ added: seen, updated: seen });
}

function ledgerOf({ accounts }: Book): PromisesLedger {
  return {
    entryOf: (handle) => {
      const account = accounts.get(handle);
      if (account === undefined) return undefined;
      const { namespace, ofClass, requestBytes } = account;
      return { namespace, ofClass, requestBytes, promisedBytes: promisedBytes(account) };
    },
    othersBytes: (handle) => {
      const account = accounts.get(handle);
      return account === undefined ? Number.NaN : account.namespace.promisedBytes - promisedBytes(account);
    },
    othersOver: (handle) => {
      const account = accounts.get(handle);
      if (account === undefined) return { allBytes: Number.NaN, classBytes: Number.NaN };
      const { namespace, ofClass, overBytes } = account;
      return { allBytes: namespace.overBytes - overBytes, classBytes: ofClass.overBytes - overBytes };
    },
  };
}

function seeLayout(book: Book, layout: FilesystemLayout): void {
  const { claimRef } = layout.spec;
  const handle = layout.metadata.name;
  const namespace = claimRef?.namespace;
  const known = book.accounts.get(handle);
  if (known !== undefined && known.namespace.name !== namespace) close(book, handle);
  if (namespace === undefined) return;
  const account = book.accounts.get(handle) ?? open(book, handle, namespace);
  const standing = standingGrant(layout);
  account.others = otherGrants(account, standing, layout, book.monotonicMs());
  account.standing = standing;
  const key = `${namespace}/${claimRef?.name}`;
  const claim = book.claims.get(key);
  account.recordedBytes = takenBytes(layout, book.filesystems.get(key), claim);
  account.requestBytes = requestedBytes(layout, claim);
  putInClass(account, claim?.spec.storageClassName ?? "");
  addUp(account);
}

/** Its claim may be seen after its layout. */
function putInClass(account: Account, className: string): void {
  const { classes } = account.namespace;
  const ofClass = classes.get(className) ?? { overBytes: 0 };
  classes.set(className, ofClass);
  if (account.ofClass === ofClass) return;
  account.ofClass.overBytes -= account.overBytes;
  ofClass.overBytes += account.overBytes;
  account.ofClass = ofClass;
}

/** What the node may hold in addition to the standing grant. */
function otherGrants(
  { standing: before, others }: Account,
  standing: HeldGrant | undefined,
  { metadata: { generation = 0 }, status }: FilesystemLayout,
  nowMs: number,
): OtherGrant[] {
  const written = overtaken(others, standing, generation, nowMs);
  const all =
    before !== undefined && before.sizeBytes > (standing?.sizeBytes ?? 0)
      ? [...written, { ...before, goneAtGeneration: generation, endsAtMs: nowMs + TAKEN_BACK_LIMIT_MS }]
      : written;
  const observed = status?.observedGeneration ?? -1;
  return all.filter((grant) => {
    const { epoch, goneAtGeneration } = grant;
    if (goneAtGeneration === undefined) return !isWhatStands(grant, standing);
    // A deposed leader's grant takes nothing back: the agent refuses it.
    return observed < goneAtGeneration || (standing !== undefined && standing.epoch < epoch);
  });
}

/** What was written before what stands was there, too, although no cache showed it: the node may have read it then. */
function overtaken(
  others: readonly OtherGrant[],
  standing: HeldGrant | undefined,
  generation: number,
  nowMs: number,
): readonly OtherGrant[] {
  const seenAt = others.findLastIndex((grant) => isWhatStands(grant, standing));
  return others.map((grant, index) =>
    index < seenAt && grant.goneAtGeneration === undefined
      ? { ...grant, goneAtGeneration: generation, endsAtMs: nowMs + TAKEN_BACK_LIMIT_MS }
      : grant,
  );
}

/** Written, and seen by now. Of a grant that was taken back nothing stands. */
function isWhatStands({ goneAtGeneration, sizeBytes, epoch }: OtherGrant, standing: HeldGrant | undefined): boolean {
  if (goneAtGeneration !== undefined || sizeBytes !== (standing?.sizeBytes ?? 0)) return false;
  return standing === undefined || epoch === standing.epoch;
}

function open(book: Book, handle: string, name: string): Account {
  const namespace = book.sums.get(name) ?? {
    name,
    accounts: new Set(),
    classes: new Map(),
    promisedBytes: 0,
    wantedBytes: 0,
    overBytes: 0,
  };
  const account: Account = {
    handle,
    namespace,
    ofClass: { overBytes: 0 },
    requestBytes: 0,
    overBytes: 0,
    recordedBytes: 0,
    extendingBytes: 0,
    standing: undefined,
    others: [],
    takenBytes: 0,
    grantedBytes: 0,
    candidateBytes: 0,
    urgency: 0,
  };
  book.sums.set(name, namespace);
  book.accounts.set(handle, account);
  namespace.accounts.add(account);
  return account;
}

function close(book: Book, handle: string): void {
  const account = book.accounts.get(handle);
  if (account === undefined) return;
  const { namespace } = account;
  book.accounts.delete(handle);
  namespace.accounts.delete(account);
  namespace.promisedBytes -= promisedBytes(account);
  namespace.wantedBytes -= wantedBytes(account);
  namespace.overBytes -= account.overBytes;
  account.ofClass.overBytes -= account.overBytes;
  if (namespace.accounts.size === 0) book.sums.delete(namespace.name);
}

type Promised = Pick<Stake, "takenBytes" | "grantedBytes" | "candidateBytes">;

function wantedBytes(stake: Promised): number {
  return Math.max(promisedBytes(stake), stake.candidateBytes);
}

function addUp(account: Account, candidateBytes = account.candidateBytes, urgency = account.urgency): void {
  const takenNow = Math.max(account.recordedBytes, account.extendingBytes);
  const grantedNow = account.others.reduce(
    (most, { sizeBytes }) => Math.max(most, sizeBytes),
    account.standing?.sizeBytes ?? 0,
  );
  const after: Promised = { takenBytes: takenNow, grantedBytes: grantedNow, candidateBytes };
  const promisedMore = promisedBytes(after) - promisedBytes(account);
  const wantedMore = wantedBytes(after) - wantedBytes(account);
  const overNow = Math.max(0, promisedBytes(after) - account.requestBytes);
  const overMore = overNow - account.overBytes;
  const { namespace, ofClass } = account;
  namespace.promisedBytes += promisedMore;
  namespace.wantedBytes += wantedMore;
  namespace.overBytes += overMore;
  ofClass.overBytes += overMore;
  account.overBytes = overNow;
  account.takenBytes = takenNow;
  account.grantedBytes = grantedNow;
  account.candidateBytes = candidateBytes;
  account.urgency = urgency;
}
