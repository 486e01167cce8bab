// What a pod asks of a node for its volumes. Plain data, made by decide-demand.ts.
import type { OwnBackend } from "../api/filesystem-layout.ts";
import type { NodeSelectorTerm } from "../kube/resources.ts";

/** A new member of a device class. */
export interface ClassDemand {
  readonly backend: OwnBackend;
  /** Undefined: the node's default class. */
  readonly deviceClass: string | undefined;
  readonly bytes: number;
}

/** A member of another driver that has to be attached to the pod's node. */
export interface SlotDemand {
  readonly driver: string;
  /** Nodes that it is attached to already, where it takes no further slot. */
  readonly attachedAt: readonly string[];
}

/** A volume that is there already, and where it can be used. */
export interface PlacedVolume {
  readonly name: string;
  /** Of a PersistentVolume: any of the terms; none: anywhere. */
  readonly terms: readonly NodeSelectorTerm[];
}

export interface Demand {
  /** Drivers of ours that have to be registered. */
  readonly drivers: readonly string[];
  readonly classes: readonly ClassDemand[];
  readonly slots: readonly SlotDemand[];
  readonly placed: readonly PlacedVolume[];
  readonly toleratesCordon: boolean;
  /** Names of the volumes (CSI volume handles) that it counts, as the ledger knows them. */
  readonly handles: readonly string[];
}
