// Keeps the ledger's reservations: what each volume takes of its node, by its objects, and for how long that counts.

import type { SeenObjects } from "../decide/decide-demand.ts";
import { isWanted, type Reservation, reservationOf, type VolumeObjects } from "../decide/decide-reservation.ts";
import type { ClassDemand } from "../decide/demand.ts";
import type { Taken } from "../decide/node-facts.ts";
import type { ClusterStores } from "../gather/cluster-stores.ts";
import { volumeObjectsIn } from "../gather/gather-objects.ts";
import type { Ledger } from "./ledger.ts";
import { createPromised } from "./promised.ts";
import { createSettling } from "./volumes-just-made.ts";

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

export interface ReservationParts {
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
      // An attempt that has failed does not begin the time anew.
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
