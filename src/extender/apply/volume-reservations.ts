// Keeps the ledger's reservations: what each volume takes of its node, by its objects, and for how long that counts.

import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import type { ClassDemand, SeenObjects } from "../decide/decide-demand.ts";
import { classOfLayout, nothingTaken, presentBytesOf, type Taken } from "../decide/decide-node.ts";
import { isWanted, type Reservation, reservationOf, type VolumeObjects } from "../decide/decide-reservation.ts";
import { type ClusterStores, nodeOfLayout, volumeObjectsIn } from "../gather/cluster-stores.ts";
import type { Ledger } from "./ledger.ts";

export interface VolumeReservations {
  /** Works out what the volume takes. */
  refresh(handle: string, nowMs: number): void;
  /** The node's figures were seen to change: the volumes that they may show now, to be refreshed. */
  reported(nodeName: string, nowMs: number): Iterable<string>;
  /** Those that are promised to the node by nothing but their claim, to be refreshed when something else is known of it. */
  promisedOn(nodeName: string): Iterable<string>;
  /** Those that time alone has changed, to be refreshed. */
  due(nowMs: number): readonly string[];
  expire(nowMs: number): void;
  /** The node is gone, and so are its figures. */
  forget(nodeName: string): void;
}

interface ReservationParts {
  readonly stores: ClusterStores;
  readonly seen: SeenObjects;
  readonly ledger: Pick<Ledger, "reservation" | "reserve" | "seen">;
  /** Whether the node, as it is known, has as much at all. */
  readonly canHave: (nodeName: string, taken: Taken) => boolean;
  /** The class of a node that a demand means. */
  readonly keyOf: (nodeName: string, demand: ClassDemand) => string;
}

export function createVolumeReservations(parts: ReservationParts): VolumeReservations {
  const { stores, seen, ledger, keyOf, canHave } = parts;
  const settling = createSettling(stores);
  const promised = createPromised();

  const counts = (handle: string, reservation: Reservation, objects: VolumeObjects, nowMs: number): boolean => {
    const { nodeName, taken, isMade, isPromise } = reservation;
    // Its time goes on while it does not count.
    if (isPromise) return promised.isOpen(handle, nodeName, nowMs) && isWanted(objects) && canHave(nodeName, taken);
    return !isMade || settling.isOpen(handle, nodeName, ledger.reservation(handle) !== undefined, nowMs);
  };
  return {
    refresh: (handle, nowMs) => {
      const objects = volumeObjectsIn(stores, seen, handle);
      const { claim, logicalVolume } = objects;
      const reservation = reservationOf(objects, keyOf);
      // The time of a failed attempt goes on.
      const isTried = logicalVolume !== undefined;
      const isBound = Boolean(claim?.spec.volumeName);
      if (claim === undefined || isBound || (reservation === undefined && !isTried)) promised.end(handle);
      const takes = reservation !== undefined && counts(handle, reservation, objects, nowMs);
      ledger.reserve(handle, takes ? reservation : undefined);
      if (takes || reservation?.isMade === true || isBound) ledger.seen(handle);
    },
    promisedOn: promised.on,
    reported: (nodeName, nowMs) => {
      settling.reported(nodeName, nowMs);
      return settling.openOn(nodeName);
    },
    due: (nowMs) => [...settling.due(nowMs), ...promised.due(nowMs)],
    expire: settling.expire,
    forget: settling.forget,
  };
}

/**
 * Volumes that only their claim promises to a node: it names the node, and nothing there is asked to make them yet. One with a wrong class
 * is never made, so after a limit a promise takes no room until the volume exists.
 */
interface Promised {
  /** Whether the promise still counts. */
  isOpen(handle: string, nodeName: string, nowMs: number): boolean;
  /** The claim is bound or gone, or no longer names a node. */
  end(handle: string): void;
  /** Those that are promised to the node, and whose time has not ended. */
  on(nodeName: string): Iterable<string>;
  /** Those that time has ended since. */
  due(nowMs: number): readonly string[];
}

/** Some attempts of csi-provisioner, each of 60 s and up to 5 minutes apart. */
const PROMISE_LIMIT_MS = 600_000;

function createPromised(): Promised {
  /** In order of age. */
  const open = new Map<string, { readonly nodeName: string; readonly sinceMs: number }>();
  /** The same by node. */
  const onNodes = new Map<string, Set<string>>();
  /** The nodes of those that have ended. */
  const over = new Map<string, string>();
  const close = (handle: string): void => {
    const nodeName = open.get(handle)?.nodeName ?? "";
    open.delete(handle);
    const handles = onNodes.get(nodeName);
    handles?.delete(handle);
    if (handles?.size === 0) onNodes.delete(nodeName);
  };
  return {
    isOpen: (handle, nodeName, nowMs) => {
      if (over.get(handle) === nodeName) return false;
      over.delete(handle);
      if (open.get(handle)?.nodeName !== nodeName) {
        close(handle);
        open.set(handle, { nodeName, sinceMs: nowMs });
        onNodes.set(nodeName, (onNodes.get(nodeName) ?? new Set()).add(handle));
      }
      return true;
    },
    end: (handle) => {
      close(handle);
      over.delete(handle);
    },
    on: (nodeName) => onNodes.get(nodeName) ?? [],
    due: (nowMs) => {
      const due: string[] = [];
      for (const [handle, { nodeName, sinceMs }] of open) {
        if (nowMs - sinceMs < PROMISE_LIMIT_MS) break;
        close(handle);
        over.set(handle, nodeName);
        due.push(handle);
      }
      return due;
    },
  };
}

// Volumes that a node has just made, and extends that it has just carried out. Its reported free space may not show them yet: until it
// does, they count as reserved.

interface Settling {
  /** The node's figures were seen to change. */
  reported(nodeName: string, nowMs: number): void;
  /** Whether what the node reports may not show the volume that it has made. `wasTaken`: it was reserved until now. */
  isOpen(handle: string, nodeName: string, wasTaken: boolean, nowMs: number): boolean;
  /** Volumes of the node that its next report may show. */
  openOn(nodeName: string): Iterable<string>;
  /** Those that time alone has settled. */
  due(nowMs: number): Iterable<string>;
  expire(nowMs: number): void;
  /** The node is gone, and so are its figures. */
  forget(nodeName: string): void;
}

/** After a node has made or extended a volume, its own figures show it within this. */
const SETTLING_LIMIT_MS = 15_000;
/** A report that comes later than this after the volume was seen has counted it: agents report within half a second of a change. */
const REPORT_DELAY_MS = 300;

function createSettling(stores: Pick<ClusterStores, "logicalVolumes" | "layouts">): Settling {
  const reportedMs = new Map<string, number>();
  /** In order of age. */
  const settling = new Map<string, { readonly nodeName: string; readonly sinceMs: number; isShown: boolean }>();
  const open = new Map<string, Set<string>>();
  const close = (handle: string, nodeName: string): void => {
    const handles = open.get(nodeName);
    handles?.delete(handle);
    if (handles?.size === 0) open.delete(nodeName);
  };
  function* due(nowMs: number): Generator<string> {
    for (const [handle, { sinceMs }] of settling) {
      if (nowMs - sinceMs < SETTLING_LIMIT_MS) return;
      yield handle;
    }
  }
  return {
    reported: (nodeName, nowMs) => reportedMs.set(nodeName, nowMs),
    isOpen: (handle, nodeName, wasTaken, nowMs) => {
      const one = settling.get(handle);
      if (one === undefined) {
        // Of those that were there before this process began, only new ones can be too new for the reports.
        if (!wasTaken && nowMs - createdMs(handle, stores) >= SETTLING_LIMIT_MS) return false;
        settling.set(handle, { nodeName, sinceMs: nowMs, isShown: false });
        open.set(nodeName, (open.get(nodeName) ?? new Set()).add(handle));
        return true;
      }
      one.isShown ||= (reportedMs.get(nodeName) ?? 0) >= one.sinceMs + REPORT_DELAY_MS;
      if (one.isShown) close(handle, one.nodeName);
      return !one.isShown && nowMs - one.sinceMs < SETTLING_LIMIT_MS;
    },
    openOn: (nodeName) => open.get(nodeName) ?? [],
    due,
    expire: (nowMs) => {
      for (const handle of due(nowMs)) {
        close(handle, settling.get(handle)?.nodeName ?? "");
        settling.delete(handle);
      }
    },
    forget: (nodeName) => reportedMs.delete(nodeName),
  };
}

/** 0: unknown. */
function createdMs(handle: string, { logicalVolumes, layouts }: Pick<ClusterStores, "logicalVolumes" | "layouts">) {
  const { metadata } = logicalVolumes.get(handle) ?? layouts.get(handle) ?? {};
  return Date.parse(metadata?.creationTimestamp ?? "") || 0;
}

export interface Grown {
  /** The layout was seen to change. */
  changed(before: FilesystemLayout, after: FilesystemLayout, nowMs: number): void;
  /** The node's figures were seen to change. */
  reported(nodeName: string, nowMs: number): void;
  expire(nowMs: number): void;
}

interface Growth {
  /** Its name in the ledger, which no volume has. */
  readonly name: string;
  readonly sinceMs: number;
}

export function createGrown(ledger: Pick<Ledger, "reserve">): Grown {
  const ofNodes = new Map<string, readonly Growth[]>();
  let count = 0;
  const settle = (nodeName: string, isShown: (growth: Growth) => boolean): void => {
    const growths = ofNodes.get(nodeName) ?? [];
    for (const { name } of growths.filter(isShown)) ledger.reserve(name, undefined);
    const open = growths.filter((growth) => !isShown(growth));
    if (open.length === 0) ofNodes.delete(nodeName);
    else ofNodes.set(nodeName, open);
  };
  return {
    changed: (before, after, nowMs) => {
      const nodeName = nodeOfLayout(after);
      const key = classOfLayout(after);
      const [beforeBytes, afterBytes] = [before, after].map(presentBytesOf);
      if (nodeName === undefined || nodeName !== nodeOfLayout(before) || key === undefined) return;
      // What begins to be there was reserved as a whole: see volumes-just-made.ts.
      if (beforeBytes === undefined || afterBytes === undefined || afterBytes <= beforeBytes) return;
      count += 1;
      const growth = { name: `${after.metadata.name}+${count}`, sinceMs: nowMs };
      const taken = { ...nothingTaken(), bytes: new Map([[key, afterBytes - beforeBytes]]) };
      ledger.reserve(growth.name, { nodeName, taken, isMade: true, isPromise: false });
      ofNodes.set(nodeName, [...(ofNodes.get(nodeName) ?? []), growth]);
    },
    reported: (nodeName, nowMs) => settle(nodeName, ({ sinceMs }) => nowMs >= sinceMs + REPORT_DELAY_MS),
    expire: (nowMs) => {
      for (const nodeName of [...ofNodes.keys()])
        settle(nodeName, ({ sinceMs }) => nowMs - sinceMs >= SETTLING_LIMIT_MS);
    },
  };
}
