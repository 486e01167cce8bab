// lvmd's configuration file as a value. Pure; throws SettingsError, which names file, line and what would be right.
import { LVM_NAME } from "../lvm/lvm-names.ts";
import type { DeviceClass, OptionClass, Settings, ThinPoolClass } from "./settings.ts";
import { createYamlReader, type Entry, type YamlReader } from "./yaml-reader.ts";

const DEFAULT_SOCKET = "/run/tidemark/lvmd.sock";
const DEFAULT_SPARE_GIB = 10;
const GIB = 2 ** 30;
/** 1 PiB in GiB. */
const MOST = 2 ** 20;
/** LVM in the host's namespaces, whether lvmd itself runs in a container or on the host. */
const DEFAULT_PREFIX = ["/usr/bin/nsenter", "-m", "-u", "-i", "-n", "-p", "-t", "1", "/sbin/lvm"] as const;
const CLASS_NAME = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const STRIPE_SIZE = /^\d+[bBsSkKmMgG]?$/;
/** lvmd says these itself: twice, LVM would refuse the command, or make something else than was asked for. */
const OWN_OPTIONS = /^(--config|--name|--size|--extents|--virtualsize|--thin|--snapshot|-[nLlVTs])/;

export function parseSettings(file: string, text: string): Settings {
  const reader = createYamlReader(file, text);
  const fields = reader.fields(reader.root, [
    "socket-name",
    "device-classes",
    "lvcreate-option-classes",
    "lvm-command-prefix",
  ]);
  const classes = fields["device-classes"] ?? reader.refuse(reader.root, "has no device-classes");
  return {
    socketName: absolutePath(reader, fields["socket-name"], DEFAULT_SOCKET),
    deviceClasses: readDeviceClasses(reader, classes),
    optionClasses: readOptionClasses(reader, fields["lvcreate-option-classes"]),
    commandPrefix: readPrefix(reader, fields["lvm-command-prefix"]),
  };
}

function readDeviceClasses(reader: YamlReader, list: Entry): DeviceClass[] {
  const entries = reader.items(list);
  if (entries.length === 0) reader.refuse(list, "is empty; a node without classes needs no lvmd");
  const classes: DeviceClass[] = [];
  for (const entry of entries) {
    const found = readDeviceClass(reader, entry);
    for (const other of classes) {
      if (other.name === found.name) reader.refuse(entry, `has the name of another class: ${found.name}`);
      if (other.isDefault && found.isDefault)
        reader.refuse(entry, `is a second default class; ${other.name} is the default already`);
      if (other.volumeGroup === found.volumeGroup && other.thinPool?.name === found.thinPool?.name)
        reader.refuse(entry, `has the same volume group${found.thinPool ? " and thin pool" : ""} as ${other.name}`);
    }
    classes.push(found);
  }
  return classes;
}

const CLASS_KEYS = [
  "name",
  "volume-group",
  "default",
  "spare-gb",
  "stripe",
  "stripe-size",
  "lvcreate-options",
  "type",
  "thin-pool",
] as const;

function readDeviceClass(reader: YamlReader, entry: Entry): DeviceClass {
  const fields = reader.fields(entry, CLASS_KEYS);
  const stripeSize = fields["stripe-size"];
  const defaultFlag = fields.default;
  return {
    name: named(reader, entry, fields.name, "name", CLASS_NAME, "1 to 63 letters, digits and . _ -"),
    volumeGroup: named(reader, entry, fields["volume-group"], "volume-group", LVM_NAME, "a name of LVM"),
    isDefault: defaultFlag !== undefined && reader.flag(defaultFlag),
    spareBytes: countOf(reader, fields["spare-gb"], 0, DEFAULT_SPARE_GIB) * GIB,
    stripe: fields.stripe && countOf(reader, fields.stripe, 1, 1),
    stripeSize: stripeSize && matching(reader, stripeSize, STRIPE_SIZE, "a size such as 64 or 64k"),
    lvcreateOptions: readOptions(reader, fields["lvcreate-options"]),
    thinPool: readThinPool(reader, entry, fields.type, fields["thin-pool"]),
  };
}

function readThinPool(
  reader: YamlReader,
  entry: Entry,
  type: Entry | undefined,
  pool: Entry | undefined,
): ThinPoolClass | undefined {
  const kind = type === undefined ? "thick" : reader.text(type);
  if (type !== undefined && kind !== "thick" && kind !== "thin")
    reader.refuse(type, `"${kind}" is neither thick nor thin`);
  if (kind === "thick")
    return pool === undefined ? undefined : reader.refuse(pool, "is there, but the class is not of type thin");
  const fields = reader.fields(pool ?? reader.refuse(entry, "is of type thin and has no thin-pool"), [
    "name",
    "overprovision-ratio",
  ]);
  const ratio = fields["overprovision-ratio"] ?? reader.refuse(pool ?? entry, "has no overprovision-ratio");
  const overprovisionRatio = reader.number(ratio);
  if (overprovisionRatio < 1) reader.refuse(ratio, `${overprovisionRatio} is less than 1`);
  return { name: named(reader, pool ?? entry, fields.name, "name", LVM_NAME, "a name of LVM"), overprovisionRatio };
}

function readOptionClasses(reader: YamlReader, list: Entry | undefined): OptionClass[] {
  const classes: OptionClass[] = [];
  for (const entry of list === undefined ? [] : reader.items(list)) {
    const fields = reader.fields(entry, ["name", "options"]);
    const name = named(reader, entry, fields.name, "name", CLASS_NAME, "1 to 63 letters, digits and . _ -");
    if (classes.some((other) => other.name === name)) reader.refuse(entry, `has the name of another class: ${name}`);
    classes.push({ name, options: readOptions(reader, fields.options) });
  }
  return classes;
}

function readOptions(reader: YamlReader, list: Entry | undefined): string[] {
  return (list === undefined ? [] : reader.items(list)).map((entry) => {
    const option = reader.text(entry);
    if (OWN_OPTIONS.test(option)) reader.refuse(entry, `${option} is lvmd's own to say`);
    return option;
  });
}

function readPrefix(reader: YamlReader, list: Entry | undefined): Settings["commandPrefix"] {
  if (list === undefined) return [...DEFAULT_PREFIX];
  const [program, ...rest] = reader.items(list);
  if (program === undefined) return reader.refuse(list, "is empty; it ends with LVM's program, such as /sbin/lvm");
  return [absolutePath(reader, program, "/"), ...rest.map((entry) => reader.text(entry))];
}

function absolutePath(reader: YamlReader, entry: Entry | undefined, otherwise: `/${string}`): `/${string}` {
  if (entry === undefined) return otherwise;
  const path = reader.text(entry);
  return path.startsWith("/") ? (path as `/${string}`) : reader.refuse(entry, `"${path}" is no absolute path`);
}

function countOf(reader: YamlReader, entry: Entry | undefined, least: number, otherwise: number): number {
  if (entry === undefined) return otherwise;
  const count = reader.number(entry);
  if (!Number.isInteger(count) || count < least || count > MOST)
    reader.refuse(entry, `${count} is no whole number from ${least} to ${MOST}`);
  return count;
}

function named(
  reader: YamlReader,
  owner: Entry,
  entry: Entry | undefined,
  key: string,
  pattern: RegExp,
  right: string,
): string {
  return matching(reader, entry ?? reader.refuse(owner, `has no ${key}`), pattern, right);
}

function matching(reader: YamlReader, entry: Entry, pattern: RegExp, right: string): string {
  const text = reader.text(entry);
  return pattern.test(text) ? text : reader.refuse(entry, `"${text}" is not ${right}`);
}
