// The arguments of LVM's commands, as TopoLVM gives them, after the subcommand. Pure.
import type { DeviceClass } from "../settings/settings.ts";

export interface NewVolume {
  readonly name: string;
  readonly sizeBytes: number;
  readonly tags: readonly string[];
  /** Of an option class: they replace the class' stripes and options. */
  readonly options: readonly string[] | undefined;
}

/** Signatures that an earlier volume has left at this place are wiped (-W y), and nobody is asked (-y). */
export function createArguments(deviceClass: DeviceClass, { name, sizeBytes, tags, options }: NewVolume): string[] {
  const { volumeGroup, thinPool, stripe, stripeSize, lvcreateOptions } = deviceClass;
  const size = `${sizeBytes}b`;
  const striped = options === undefined && stripe !== undefined;
  return [
    ...(thinPool === undefined
      ? ["-n", name, "-L", size]
      : ["-T", `${volumeGroup}/${thinPool.name}`, "-n", name, "-V", size]),
    ...["-W", "y", "-y"],
    ...tagArguments("--addtag", tags),
    ...(striped ? ["-i", String(stripe)] : []),
    ...(striped && stripeSize !== undefined ? ["-I", stripeSize] : []),
    ...(options ?? lvcreateOptions),
    ...(thinPool === undefined ? [volumeGroup] : []),
  ];
}

/** Of a thin volume; activated with all others (-k n). */
export function snapshotArguments(group: string, source: string, name: string, tags: readonly string[]): string[] {
  return ["-s", "-k", "n", "-n", name, `${group}/${source}`, ...tagArguments("--addtag", tags)];
}

/** Also of one that LVM is to skip (-K), as it skips thin snapshots that others have made. */
export function activationArguments(group: string, name: string): string[] {
  return ["-a", "y", "-K", `${group}/${name}`];
}

export function resizeArguments(group: string, name: string, sizeBytes: number): string[] {
  return ["-L", `${sizeBytes}b`, `${group}/${name}`];
}

/** Data may be lost, nobody is asked: the caller has proved that nothing is beyond. `ignoresFilesystem`: from 2.03.17. */
export function reduceArguments(group: string, name: string, sizeBytes: number, ignoresFilesystem: boolean): string[] {
  return ["-f", "-y", ...(ignoresFilesystem ? ["--fs", "ignore"] : []), "-L", `${sizeBytes}b`, `${group}/${name}`];
}

export function tagArguments(flag: "--addtag" | "--deltag", tags: readonly string[]): string[] {
  return tags.flatMap((tag) => [flag, tag]);
}
