// Which samples of an agent's stream are looked at: those of its own node's volumes, and no more a second than an agent ever takes. An agent
// may be broken, or its token stolen: what it says of its own volumes is judged by the decision, and refuted by the filesystem itself.
import type { Sample } from "../../gen/tidemark/samples/v1/samples.ts";
import type { Logger } from "../../process/log.ts";

export interface SampleIntake {
  /** Those that count. Warns once for each stream of what it leaves out, by the names of node and volume. */
  take(nodeName: string, batch: readonly Sample[], monotonicMs: number): Sample[];
  /** A stream has begun or ended: what was counted is forgotten. */
  forget(nodeName: string): void;
}

/** An agent samples each filesystem every 25 ms at most; a network that held them up may deliver seconds of them at once. */
const SAMPLES_PER_SECOND = 200;
const WINDOW_MS = 1000;
/** A volume that has just gone to another node is still sampled for a moment. */
const FOREIGN_LIMIT = 20;

interface Counted {
  foreign: number;
  isFloodSaid: boolean;
  windowBeganMs: number;
  /** In the window, by volume; of the node's own alone, of which there are as many as there are layouts. */
  readonly inWindow: Map<string, number>;
}

/** `nodeOf`: the node whose agent may speak for a volume; undefined: there is none. */
export function createSampleIntake(nodeOf: (handle: string) => string | undefined, log: Logger): SampleIntake {
  // As many as there are streams.
  const counted = new Map<string, Counted>();
  const countedOf = (nodeName: string, monotonicMs: number): Counted => {
    const counts = counted.get(nodeName) ?? {
      ...{ foreign: 0, isFloodSaid: false, windowBeganMs: monotonicMs },
      inWindow: new Map<string, number>(),
    };
    counted.set(nodeName, counts);
    if (monotonicMs - counts.windowBeganMs >= WINDOW_MS) {
      counts.windowBeganMs = monotonicMs;
      counts.inWindow.clear();
    }
    return counts;
  };
  const isOwn = (nodeName: string, counts: Counted, volume: string): boolean => {
    const owner = nodeOf(volume);
    if (owner === nodeName) return true;
    counts.foreign += 1;
    if (counts.foreign === FOREIGN_LIMIT)
      log.warn(
        { nodeName, volume, owner },
        `Look at the agent of node ${nodeName}: it sends samples of ${volume}, which is not on that node. They are left out`,
      );
    return false;
  };
  const isWithinRate = (nodeName: string, counts: Counted, volume: string): boolean => {
    const before = counts.inWindow.get(volume) ?? 0;
    counts.inWindow.set(volume, before + 1);
    if (before < SAMPLES_PER_SECOND) return true;
    if (!counts.isFloodSaid)
      log.warn(
        { nodeName, volume },
        `Look at the agent of node ${nodeName}: it sends more than ${SAMPLES_PER_SECOND} samples of ${volume} a second. The rest is left out`,
      );
    counts.isFloodSaid = true;
    return false;
  };
  return {
    take: (nodeName, batch, monotonicMs) => {
      const counts = countedOf(nodeName, monotonicMs);
      return batch.filter(
        ({ volumeHandle }) => isOwn(nodeName, counts, volumeHandle) && isWithinRate(nodeName, counts, volumeHandle),
      );
    },
    forget: (nodeName) => {
      counted.delete(nodeName);
    },
  };
}
