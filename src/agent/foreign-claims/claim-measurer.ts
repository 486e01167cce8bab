// Measures this node's ordinary claims: finds kubelet's mounts of them, has each sampled in a slot of its own, and tells the engines. A
// sampling thread apart from our own filesystems': what another driver's does not answer delays none of ours. It changes nothing.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { type ClaimSlots, type ClaimSlotsParts, createClaimSlots } from "./claim-slots.ts";
import { findClaims } from "./find-claims.ts";

export interface ClaimMeasurer extends Omit<ClaimSlots, "hold"> {
  /** The layouts have changed: looks again soon, once for all that change by then. */
  look(): void;
}

export interface ClaimMeasurerParts extends ClaimSlotsParts {
  readonly kubeletDirectory: string;
  /** Those of this node. */
  readonly layouts: () => readonly FilesystemLayout[];
}

/** A pod that starts or ends tells nobody but the kernel's table. */
const LOOK_INTERVAL_MS = 2000;
const LOOK_DELAY_MS = 50;

export function createClaimMeasurer(parts: ClaimMeasurerParts): ClaimMeasurer {
  const { kubeletDirectory, layouts, log } = parts;
  const slots = createClaimSlots(parts);
  let soon: NodeJS.Timeout | undefined;
  const look = (): void => {
    clearTimeout(soon);
    soon = undefined;
    try {
      slots.hold(findClaims(kubeletDirectory, layouts()));
    } catch (err) {
      log.warn({ err }, "kubelet's mounts could not be listed; looking again");
    }
  };
  const timer = setInterval(look, LOOK_INTERVAL_MS);
  return {
    ...slots,
    look: () => {
      soon ??= setTimeout(look, LOOK_DELAY_MS);
    },
    stop: async () => {
      clearInterval(timer);
      clearTimeout(soon);
      await slots.stop();
    },
  };
}
