// The two CSI drivers. A driver's fields hold for all of its volumes, so each backend of ours belongs to exactly one of them, and a volume
// never changes between them.
import { OWN_BACKENDS, type OwnBackend } from "../kinds/filesystem-layout.ts";
import { LOCAL_DRIVER, SPAN_DRIVER } from "../names.ts";

export interface Driver {
  readonly name: string;
  readonly backends: readonly OwnBackend[];
  /** Volumes are attached to a node before they are staged there (CSIDriver.spec.attachRequired). */
  readonly attaches: boolean;
}

export const LOCAL: Driver = { name: LOCAL_DRIVER, backends: ["loop", "lvm"], attaches: false };
export const SPAN: Driver = { name: SPAN_DRIVER, backends: ["span"], attaches: true };

const OF_BACKEND: Readonly<Record<OwnBackend, Driver>> = { loop: LOCAL, lvm: LOCAL, span: SPAN };

export function driverOf(backend: OwnBackend): Driver {
  return OF_BACKEND[backend];
}

/** Undefined: the driver is not ours. */
export function driverNamed(name: string | undefined): Driver | undefined {
  return OWN_BACKENDS.map(driverOf).find((driver) => driver.name === name);
}
