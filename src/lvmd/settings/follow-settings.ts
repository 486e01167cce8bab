// The current settings: the YAML file is parsed, and read again when it changes. An unusable one is reported, with file and line of what is
// wrong, and the last good one stays.
import { type FSWatcher, readFileSync, watch } from "node:fs";
import { dirname } from "node:path";
import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  type ParsedNode,
  parseDocument,
} from "yaml";
import type { Logger } from "../../platform/process/log.ts";
import { LVM_NAME } from "../lvm/lvm.ts";
import type { DeviceClass, OptionClass, Settings, ThinPoolClass } from "./settings.ts";

export interface FollowedSettings {
  now(): Settings;
  /** Why the file as it is now is not used. */
  problem(): string | undefined;
  onChange(listener: () => void): void;
  stop(): void;
}

/** An editor, and kubelet with a ConfigMap, take several steps to change a file. */
const SETTLE_MS = 100;
/** Where the kernel reports no changes. */
const LOOK_INTERVAL_MS = 10_000;

/** Throws where the file cannot be used at all: there are no earlier settings to go on with. */
export function followSettings(file: string, log: Logger): FollowedSettings {
  const listeners: (() => void)[] = [];
  let text = readFileSync(file, "utf8");
  let settings = parseSettings(file, text);
  let problem: string | undefined;
  let settling: NodeJS.Timeout | undefined;

  const take = (): void => {
    try {
      const newest = readFileSync(file, "utf8");
      if (newest === text && problem === undefined) return;
      const parsed = parseSettings(file, newest);
      if (newest !== text) log.info({ file }, "the configuration has changed");
      if (parsed.socketName !== settings.socketName)
        log.warn({ file }, "another socket-name counts from the next start");
      text = newest;
      settings = parsed;
      problem = undefined;
    } catch (error) {
      const found = (error as Error).message;
      if (found === problem) return;
      problem = found;
      log.error({ problem }, "the configuration cannot be used; the one before stays");
    }
    for (const listener of listeners) listener();
  };
  const settle = (): void => {
    clearTimeout(settling);
    settling = setTimeout(take, SETTLE_MS);
  };
  // The directory: the file itself is replaced, not written.
  const watcher: FSWatcher = watch(dirname(file), settle);
  watcher.on("error", (err) => log.warn({ err, file }, "changes of the configuration are only seen now and then"));
  const timer = setInterval(take, LOOK_INTERVAL_MS);
  return {
    now: () => settings,
    problem: () => problem,
    onChange: (listener) => listeners.push(listener),
    stop: () => {
      watcher.close();
      clearInterval(timer);
      clearTimeout(settling);
    },
  };
}

// lvmd's configuration file as a value. Pure; throws SettingsError, which names file, line and what would be right.

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
    return pool === undefined ? undefined : reader.refuse(pool, "is set, but the class is not of type thin");
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
  return path.startsWith("/") ? (path as `/${string}`) : reader.refuse(entry, `"${path}" is not an absolute path`);
}

function countOf(reader: YamlReader, entry: Entry | undefined, least: number, otherwise: number): number {
  if (entry === undefined) return otherwise;
  const count = reader.number(entry);
  if (!Number.isInteger(count) || count < least || count > MOST)
    reader.refuse(entry, `${count} is not a whole number from ${least} to ${MOST}`);
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

/** The configuration cannot be used; the message says where and why. */
export class SettingsError extends Error {
  override name = "SettingsError";
}

/** A value of the file with the name by which messages call it. */
export interface Entry {
  readonly name: string;
  readonly node: Node;
}

export interface YamlReader {
  readonly root: Entry;
  /** The values of a mapping by key; a key outside of `known` is refused. */
  fields<Key extends string>(entry: Entry, known: readonly Key[]): Partial<Record<Key, Entry>>;
  items(entry: Entry): Entry[];
  text(entry: Entry): string;
  number(entry: Entry): number;
  flag(entry: Entry): boolean;
  refuse(entry: Entry, problem: string): never;
}

/** A hundred classes. */
const LIMIT_CHARACTERS = 16_384;

/** `file` is its name in messages. Throws SettingsError where the text is not YAML. */
export function createYamlReader(file: string, text: string): YamlReader {
  if (text.length > LIMIT_CHARACTERS)
    throw new SettingsError(`${file}: it has ${text.length} characters, over the limit of ${LIMIT_CHARACTERS}`);
  const lines = new LineCounter();
  // Which keys are there twice is asked of the known ones alone: among all it takes the square of their number.
  const document = withoutStacks(() =>
    parseDocument(text, { lineCounter: lines, uniqueKeys: false, prettyErrors: false }),
  );
  const refuseAt = (offset: number, problem: string): never => {
    throw new SettingsError(`${file}:${lines.linePos(offset).line}: ${problem}`);
  };
  const [problem] = document.errors;
  if (problem !== undefined) refuseAt(problem.pos[0], problem.message);
  const refuse = (entry: Entry, what: string): never => refuseAt(entry.node.range?.[0] ?? 0, `${entry.name} ${what}`);
  const scalar = (entry: Entry): unknown => (isScalar(entry.node) ? entry.node.value : undefined);
  if (document.contents === null) return refuseAt(0, "the file is empty; it needs device-classes");
  return {
    root: { name: "the file", node: document.contents },
    fields: (entry, known) => fieldsOf(entry, known, refuse),
    items: (entry) => {
      if (!isSeq(entry.node)) return refuse(entry, "is not a list");
      return entry.node.items.map((item, index) => ({ name: `${entry.name}[${index}]`, node: item as Node }));
    },
    text: (entry) => {
      const value = scalar(entry);
      // A stripe size of 64 is a number to YAML and a text to lvcreate.
      return typeof value === "string" || typeof value === "number" ? String(value) : refuse(entry, "is not a text");
    },
    number: (entry) => {
      const value = scalar(entry);
      return typeof value === "number" && Number.isFinite(value) ? value : refuse(entry, "is not a number");
    },
    flag: (entry) => {
      const value = scalar(entry);
      return typeof value === "boolean" ? value : refuse(entry, "is neither true nor false");
    },
    refuse,
  };
}

/** One key in the wrong column makes an error of each line after it, and their stacks take most of the time. */
function withoutStacks<T>(work: () => T): T {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 0;
  try {
    return work();
  } finally {
    Error.stackTraceLimit = limit;
  }
}

function fieldsOf<Key extends string>(
  entry: Entry,
  known: readonly Key[],
  refuse: (entry: Entry, problem: string) => never,
): Partial<Record<Key, Entry>> {
  if (!isMap(entry.node)) return refuse(entry, "is not a mapping");
  const found: Partial<Record<Key, Entry>> = {};
  const seen = new Set<Key>();
  for (const { key, value } of entry.node.items as Pair<ParsedNode, ParsedNode | null>[]) {
    const name = String(isScalar(key) ? key.value : key);
    const here: Entry = { name: `"${name}"`, node: key };
    const field = known.find((candidate) => candidate === name);
    if (field === undefined) return refuse(here, `is not known here; known are ${known.join(", ")}`);
    if (seen.has(field)) return refuse(here, "appears twice");
    seen.add(field);
    if (value === null || (isScalar(value) && value.value === null)) continue; // as if it were not there
    if (isAlias(value)) return refuse(here, "is an alias; write the value itself");
    found[field] = { name, node: value };
  }
  return found;
}
