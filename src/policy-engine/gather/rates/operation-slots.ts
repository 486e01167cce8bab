// How many operations run at once, in the cluster and on each node, and which volumes wait for their turn, in order. Starting, ending and
// waiting update it, so that reading it costs little. It decides nothing.
import type { Direction } from "../../decide/plan.ts";

/** A node's name; undefined: the cluster. */
export type Place = string | undefined;

export interface Turn {
  readonly direction: Direction;
  /** The lower has waited longer; Infinity: it has not waited. */
  readonly ticket: number;
}

/** Extends go before shrinks, then who has waited longer. */
export function goesBefore(a: Turn, b: Turn): boolean {
  return a.direction === b.direction ? a.ticket < b.ticket : a.direction === "extend";
}

/** Where a volume waits, and the ceiling that it waits for: so many may run there. */
export interface Waiting extends Turn {
  readonly place: Place;
  readonly limit: number;
}

/** By direction, tickets in order. */
type Line = Readonly<Record<Direction, number[]>>;

export class OperationSlots {
  readonly #running = new Map<Place, number>();
  /** By limit: one that a lower limit holds does not have others wait for it. */
  readonly #lines = new Map<Place, Map<number, Line>>();
  #tickets = 0;

  running(place: Place): number {
    return this.#running.get(place) ?? 0;
  }

  start(nodeName: string | undefined): void {
    this.#add(undefined, 1);
    if (nodeName !== undefined) this.#add(nodeName, 1);
  }

  end(nodeName: string | undefined): void {
    this.#add(undefined, -1);
    if (nodeName !== undefined) this.#add(nodeName, -1);
  }

  /** How many have their turn before this one, of those that may go while so many run. */
  waitingBefore(place: Place, { direction, ticket }: Turn, running: number): number {
    let before = 0;
    for (const [limit, line] of this.#lines.get(place) ?? []) {
      if (limit <= running) continue;
      before += indexOf(line[direction], ticket);
      if (direction === "shrink") before += line.extend.length;
    }
    return before;
  }

  /** Its turn comes by when it began to wait, wherever that was: `known` is what it waited for before. */
  wait(known: Waiting | undefined, place: Place, limit: number, direction: Direction): Waiting {
    if (known !== undefined) {
      if (known.place === place && known.limit === limit && known.direction === direction) return known;
      this.leave(known);
    }
    const ticket = known?.ticket ?? this.#nextTicket();
    const tickets = this.#lineOf(place, limit)[direction];
    tickets.splice(indexOf(tickets, ticket), 0, ticket);
    return { place, limit, direction, ticket };
  }

  leave({ place, limit, direction, ticket }: Waiting): void {
    const line = this.#lines.get(place)?.get(limit);
    if (line === undefined) return;
    const tickets = line[direction];
    const index = indexOf(tickets, ticket);
    if (tickets[index] === ticket) tickets.splice(index, 1);
    if (line.extend.length + line.shrink.length > 0) return;
    const lines = this.#lines.get(place);
    lines?.delete(limit);
    if (lines?.size === 0) this.#lines.delete(place);
  }

  #nextTicket(): number {
    this.#tickets += 1;
    return this.#tickets;
  }

  #lineOf(place: Place, limit: number): Line {
    const lines = this.#lines.get(place) ?? new Map<number, Line>();
    const line = lines.get(limit) ?? { extend: [], shrink: [] };
    this.#lines.set(place, lines.set(limit, line));
    return line;
  }

  #add(place: Place, more: number): void {
    const count = this.running(place) + more;
    if (count === 0) this.#running.delete(place);
    else this.#running.set(place, count);
  }
}

/** How many are lower. */
function indexOf(tickets: readonly number[], ticket: number): number {
  let [low, high] = [0, tickets.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((tickets[middle] ?? ticket) < ticket) low = middle + 1;
    else high = middle;
  }
  return low;
}
