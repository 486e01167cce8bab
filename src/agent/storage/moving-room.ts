// What running steps of shrinks may still take of the places where members lie. Without it two that look at one place at the same moment
// would both count on what is free there.
import type { MemberRoom } from "./block/block-member.ts";

export interface MovingRoom {
  /** Less what the steps of other members may take there. */
  left(room: MemberRoom | undefined): MemberRoom | undefined;
  /** For one step; the answer gives it back, as soon as the room shows what the step has taken. */
  take(room: MemberRoom | undefined, movedBytes: number): () => void;
}

export function createMovingRoom(): MovingRoom {
  const taken = new Set<{ readonly place: string; readonly bytes: number }>();
  return {
    left: (room) => {
      if (room === undefined) return undefined;
      const bytes = [...taken].reduce((sum, one) => (one.place === room.place ? sum + one.bytes : sum), 0);
      return { ...room, freeBytes: Math.max(0, room.freeBytes - bytes) };
    },
    take: (room, movedBytes) => {
      if (room === undefined) return () => undefined;
      const step = { place: room.place, bytes: Math.min(movedBytes, room.holeBytes) };
      taken.add(step);
      const giveBack = (): void => void taken.delete(step);
      return () => void (room.lagMs === 0 ? giveBack() : setTimeout(giveBack, room.lagMs).unref());
    },
  };
}
