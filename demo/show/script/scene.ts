// What the views show: the log of the run, and where the user can look for himself. Views read it and change nothing.

import type { RunLog } from "../run/run-log.ts";
import type { Places } from "./places.ts";

export interface Scene extends Places {
  readonly log: RunLog;
  readonly storage: "real" | "simulated";
  readonly fsType: string;
  /** Time since the writers began; 0 before. */
  readonly nowMs: number;
  /** How long a run takes, about: the chart's initial width. */
  readonly expectedDurationMs: number;
  readonly fixedSizeBytes: number;
  readonly nominalBytes: number;
}

/** One way of showing a run. */
export interface DemoView {
  /** Called whenever something has been added to the log, and some times a second besides. */
  update(scene: Scene): void;
  /** Leaves the terminal as it was found. Idempotent. */
  close(): void;
}
