// Where the devices and the settings of one machine's LVM on loop devices lie: all below one directory.
import { mkdirSync } from "node:fs";
import { join } from "node:path";

export interface LoopGroundPlaces {
  readonly directory: string;
  /** GROUP.img: the physical volume of a group. LVM keeps its metadata there and the volumes' data elsewhere. */
  readonly groups: string;
  /** GROUP/UUID: the data of one volume. */
  readonly volumes: string;
  /** Which volume has which name: what the last settling found. */
  readonly names: string;
  /** There while a command that changes something is not settled. */
  readonly unsettled: string;
  /** Of flock(1). */
  readonly lock: string;
  readonly program: string;
  /** Runs the program, one at a time. */
  readonly command: string;
}

export function loopGroundPlaces(directory: string): LoopGroundPlaces {
  return {
    directory,
    groups: join(directory, "groups"),
    volumes: join(directory, "volumes"),
    names: join(directory, "names.json"),
    unsettled: join(directory, "unsettled"),
    lock: join(directory, "lock"),
    program: join(directory, "lvm-on-loop.mjs"),
    command: join(directory, "lvm-on-loop"),
  };
}

export function makeLoopGroundDirectories({ groups, volumes }: LoopGroundPlaces): void {
  for (const path of [groups, volumes]) mkdirSync(path, { recursive: true });
}
