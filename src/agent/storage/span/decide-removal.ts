// Which member leaves a btrfs next, of those that shall. Pure: figures in, a move out. A removal for which there is too little room
// elsewhere forces the filesystem read-only; so what moves, and room in addition to it, must fit before it begins.
import { chunkRoomBytes, leastLeftBytes } from "../../../contracts/formulas/reserve.ts";
import { formatBytes } from "../../../contracts/quantities/quantity.ts";

/** As a shrink's: chunks emptier than this are repacked first, each at most once; never metadata. */
const BALANCE_USAGE_PERCENTS = [0, 25, 50] as const;

/** A member's device in the filesystem. */
export interface DeviceRoom {
  readonly member: string;
  readonly sizeBytes: number;
  /** What is not unallocated belongs to chunks, and all of it moves. */
  readonly unallocatedBytes: number;
}

export interface RemovalFacts {
  /** The oldest first. */
  readonly leaving: readonly DeviceRoom[];
  readonly staying: readonly DeviceRoom[];
  readonly capacityBytes: number;
  readonly availableBytes: number;
  readonly reserveBytes: number;
  readonly balancesDone: number;
  /** Why no data is moved, in words; undefined: it is. */
  readonly immovable: string | undefined;
}

export type RemovalMove =
  | { readonly kind: "remove"; readonly member: string }
  | { readonly kind: "balance"; readonly usagePercent: number }
  | { readonly kind: "floor"; readonly floorBytes: number; readonly message: string };

type Order = readonly DeviceRoom[];
type Check = (facts: RemovalFacts, order: Order) => boolean;

/**
 * Leads to the set that gives back the most, of equal ones the one that moves the least; in it the emptiest goes first. Chunks are
 * repacked before that where a larger set has space, and only the places of its chunks hold it up.
 */
export function decideRemovalMove(facts: RemovalFacts): RemovalMove {
  const emptiestFirst = { ...facts, leaving: [...facts.leaving].reverse().sort(byAllocated) };
  const now = bestOrder(emptiestFirst, hasRoom);
  const usagePercent = BALANCE_USAGE_PERCENTS[facts.balancesDone];
  if (usagePercent !== undefined && mayMove(facts) && sizeOf(bestOrder(emptiestFirst, hasSpace)) > sizeOf(now))
    return { kind: "balance", usagePercent };
  const [next] = now;
  if (next !== undefined) return { kind: "remove", member: next.member };
  return {
    kind: "floor",
    floorBytes: mayMove(facts) ? floorOf(facts) : facts.capacityBytes,
    message: floorMessage(emptiestFirst),
  };
}

/** Goes on from `order` as far as it may. At most 5 members: 325 orders. */
function bestOrder(facts: RemovalFacts, mayGo: Check, order: Order = []): Order {
  let best = order;
  for (const device of facts.leaving) {
    const longer = [...order, device];
    if (order.includes(device) || !mayGo(facts, longer)) continue;
    const found = bestOrder(facts, mayGo, longer);
    if (isBetter(found, best)) best = found;
  }
  return best;
}

function isBetter(one: Order, other: Order): boolean {
  const moreBytes = sizeOf(one) - sizeOf(other);
  return moreBytes > 0 || (moreBytes === 0 && allocatedOf(one) < allocatedOf(other));
}

/** Never under used + reserve. */
function hasSpace(facts: RemovalFacts, order: Order): boolean {
  return facts.capacityBytes - sizeOf(order) >= leastSpaceBytes(facts);
}

/**
 * When the last of the order has left, the data of all is on the members that remain, wherever it was in between. So the order counts as a
 * whole, and only room on those members counts.
 */
function hasRoom(facts: RemovalFacts, order: Order): boolean {
  if (!mayMove(facts) && allocatedOf(order) > 0) return false;
  return hasSpace(facts, order) && roomBytes(facts, order) >= neededBytes(facts, order);
}

/** Where it is not, a member that holds nothing leaves all the same. */
function mayMove({ immovable }: RemovalFacts): boolean {
  return immovable === undefined;
}

function roomBytes({ leaving, staying }: RemovalFacts, order: Order): number {
  const left = [...leaving, ...staying].filter((device) => !order.includes(device));
  return left.reduce((sum, { unallocatedBytes }) => sum + unallocatedBytes, 0);
}

/** By the size before the last of them: a removal that is cancelled gives it back. */
function neededBytes({ capacityBytes }: RemovalFacts, order: Order): number {
  const leftBytes = capacityBytes - sizeOf(order);
  return allocatedOf(order) + chunkRoomBytes(leftBytes, leftBytes + (order.at(-1)?.sizeBytes ?? 0));
}

function leastSpaceBytes({ capacityBytes, availableBytes, reserveBytes }: RemovalFacts): number {
  return capacityBytes - availableBytes + reserveBytes;
}

/** The smallest size to which other members, perhaps, could be given back. */
function floorOf(facts: RemovalFacts): number {
  const { leaving, staying, capacityBytes } = facts;
  const leastBytes = leastLeftBytes(allocatedOf([...leaving, ...staying]), capacityBytes);
  return Math.min(capacityBytes, Math.max(leastSpaceBytes(facts), leastBytes));
}

/** Of the member that asks for the least room. */
function floorMessage(facts: RemovalFacts): string {
  const { leaving, capacityBytes, availableBytes, reserveBytes } = facts;
  const [easiest, ...others] = [...leaving].sort((a, b) => a.sizeBytes - b.sizeBytes);
  if (easiest === undefined) return "no member that shall leave is in it";
  const stays =
    `member ${easiest.member} (${formatBytes(easiest.sizeBytes)}) stays` +
    (others.length === 0 ? "" : `, as ${others.map(({ member }) => member).join(", ")} would`);
  const leftBytes = capacityBytes - easiest.sizeBytes;
  if (!hasSpace(facts, [easiest]))
    return (
      `${stays}: the other members have ${formatBytes(leftBytes)}, less than ${formatBytes(capacityBytes - availableBytes)} used + ` +
      `a reserve of ${formatBytes(reserveBytes)}`
    );
  if (!mayMove(facts)) return `${stays}: ${formatBytes(allocatedOf([easiest]))} would be moved; ${facts.immovable}`;
  return `${stays}: taking it out safely needs ${formatBytes(neededBytes(facts, [easiest]))} (${formatBytes(allocatedOf([easiest]))} to move, and new chunks), and the others have ${formatBytes(roomBytes(facts, [easiest]))} unallocated`;
}

function byAllocated(a: DeviceRoom, b: DeviceRoom): number {
  return allocatedOf([a]) - allocatedOf([b]);
}

function sizeOf(order: Order): number {
  return order.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}

function allocatedOf(order: Order): number {
  return order.reduce((sum, { sizeBytes, unallocatedBytes }) => sum + sizeBytes - unallocatedBytes, 0);
}
