// What lvmd's configuration file says: the device classes of this node, and how LVM is run. TopoLVM's lvmd.yaml, key by key.

export interface ThinPoolClass {
  readonly name: string;
  /** At least 1: volumes may promise this times the pool's size. */
  readonly overprovisionRatio: number;
}

export interface DeviceClass {
  readonly name: string;
  readonly volumeGroup: string;
  readonly isDefault: boolean;
  /** Never given to volumes. */
  readonly spareBytes: number;
  readonly stripe: number | undefined;
  /** As lvcreate's -I takes it. */
  readonly stripeSize: string | undefined;
  readonly lvcreateOptions: readonly string[];
  /** Absent: volumes are thick. */
  readonly thinPool: ThinPoolClass | undefined;
}

/** Options of lvcreate that a request can choose instead of its class' own. */
export interface OptionClass {
  readonly name: string;
  readonly options: readonly string[];
}

export interface Settings {
  readonly socketName: string;
  readonly deviceClasses: readonly DeviceClass[];
  readonly optionClasses: readonly OptionClass[];
  /** The program, by its absolute path, and its first arguments; LVM's subcommand and arguments come after them. */
  readonly commandPrefix: readonly [`/${string}`, ...string[]];
}

/** "" is the default class; undefined: there is no such one. */
export function findDeviceClass({ deviceClasses }: Settings, name: string): DeviceClass | undefined {
  return deviceClasses.find((candidate) => (name === "" ? candidate.isDefault : candidate.name === name));
}
