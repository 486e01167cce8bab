// What a pod asks of a node for its volumes. Plain data, made by decide-demand.ts.
import type { OwnBackend } from "../../api/filesystem-layout.ts";
import type { NodeSelectorTerm } from "../../kube/resources.ts";

/** A new member of a device class. */
export interface ClassDemand {
  readonly backend: OwnBackend;
  /** Undefined: the node's default class. */
  readonly deviceClass: string | undefined;
  readonly bytes: number;
  /** The node that has made it already, where it takes no further bytes. */
  readonly madeAt: string | undefined;
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

/** Why no node at all can take a pod as things are. */
export interface Refusal {
  readonly sentence: string;
  /** It is of an object that is not there, which we may only not have seen yet: the scheduler, who has, is to ask again soon. */
  readonly mayPass: boolean;
}

/** A volume that the demand counts. */
export interface CountedVolume {
  /** Its CSI volume handle, as the ledger knows it. */
  readonly handle: string;
  /** It is still to be made, or to be bound to its claim: its bytes are asked for. */
  readonly isNew: boolean;
}

export interface Demand {
  /** Drivers of ours that have to be registered. */
  readonly drivers: readonly string[];
  readonly classes: readonly ClassDemand[];
  readonly slots: readonly SlotDemand[];
  readonly placed: readonly PlacedVolume[];
  readonly toleratesCordon: boolean;
  readonly volumes: readonly CountedVolume[];
  /**
   * Handles of those whose places, once all of them are seen, are counted by themselves, so that nothing has to be held for the pod any
   * more. None: the pod's own place has to be seen, since members that are there already change hands with it.
   */
  readonly awaited: readonly string[];
}
