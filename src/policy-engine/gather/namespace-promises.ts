// What each namespace's filesystems have been promised, added up: sizes, targets under way, grants. Kept up by changes, so that
// asking for a sum costs nothing however many volumes there are. What a node may still act on counts until it is known that it
// does not: a target until it has ended, a grant until the agent has seen that it was taken back. It decides nothing.
import { EMERGENCY_LIFE_MS } from "../../api/emergency-life.ts";
import type { Filesystem } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { ReadableStore } from "../../kube/cache/store.ts";
import type { PersistentVolumeClaim } from "../../kube/resources.ts";
import type { Clock } from "../../process/clock.ts";
import { promisedBytes, type Stake, shareOf, type Wish } from "../sizing/namespace-budget.ts";
import type { OverRequests } from "../sizing/quota.ts";
import type { Caches } from "./caches.ts";
import { type HeldGrant, requestedBytes, standingGrant, takenBytes } from "./volume-stake.ts";

export interface NamespacePromises {
  /** What the other filesystems of its namespace can grow to without asking again, all together. */
  othersBytes(handle: string): number;
  /** By how much that is more than their claims request. */
  othersOver(handle: string): OverRequests;
  /** The largest size that the budget lets this one's grant have. */
  grantShare(handle: string, budgetBytes: number): number;
  /** A decision begins: what is still on its way to the API server, and what time has ended. */
  begin(handle: string, pendingBytes: number): void;
  /** An extend was decided: it counts from now on, until the next decision knows what became of it. */
  extending(handle: string, sizeBytes: number): void;
  wishing(handle: string, wish: Omit<Wish, "grant">): void;
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
  /** On the monotonic clock; from then on nobody can spend it. */
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
  wishedBytes: number;
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
  /** The same if each had its wish. */
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
  layouts.subscribe({
    added: (layout) => seeLayout(book, layout),
    updated: (layout) => seeLayout(book, layout),
    deleted: ({ metadata }) => close(book, metadata.name),
  });
  const targetSeen = ({ metadata: { namespace, name } }: Filesystem): void => {
    for (const layout of layouts.store.byIndex("claim", `${namespace}/${name}`)) seeLayout(book, layout);
  };
  const requestSeen = ({ metadata: { namespace, name } }: PersistentVolumeClaim): void => {
    for (const layout of layouts.store.byIndex("claim", `${namespace}/${name}`)) seeLayout(book, layout);
  };
  filesystems.subscribe({ added: targetSeen, updated: targetSeen, deleted: targetSeen });
  claims.subscribe({ added: requestSeen, updated: requestSeen });
  const withAccount = (handle: string, change: (account: Account) => void): void => {
    const account = book.accounts.get(handle);
    if (account !== undefined) change(account);
  };
  return {
    othersBytes: (handle) => {
      const account = book.accounts.get(handle);
      return account === undefined ? Number.NaN : account.namespace.promisedBytes - promisedBytes(account);
    },
    othersOver: (handle) => {
      const account = book.accounts.get(handle);
      if (account === undefined) return { allBytes: Number.NaN, classBytes: Number.NaN };
      const { namespace, ofClass, overBytes } = account;
      return { allBytes: namespace.overBytes - overBytes, classBytes: ofClass.overBytes - overBytes };
    },
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
    wishing: (handle, { wishedBytes, urgency }) =>
      withAccount(handle, (account) => addUp(account, wishedBytes, urgency)),
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

/** What the node may hold beside the grant that stands now. */
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
    wishedBytes: 0,
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

type Promised = Pick<Stake, "takenBytes" | "grantedBytes" | "wishedBytes">;

function wantedBytes(stake: Promised): number {
  return Math.max(promisedBytes(stake), stake.wishedBytes);
}

// A batch that takes too long is ended at any call: all is worked out first, and then assigned with no call between.
function addUp(account: Account, wishedBytes = account.wishedBytes, urgency = account.urgency): void {
  const takenNow = Math.max(account.recordedBytes, account.extendingBytes);
  const grantedNow = account.others.reduce(
    (most, { sizeBytes }) => Math.max(most, sizeBytes),
    account.standing?.sizeBytes ?? 0,
  );
  const after: Promised = { takenBytes: takenNow, grantedBytes: grantedNow, wishedBytes };
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
  account.wishedBytes = wishedBytes;
  account.urgency = urgency;
}
