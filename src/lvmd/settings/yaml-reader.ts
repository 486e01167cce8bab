// Reads values out of a YAML file and knows where each of them stands: every refusal is a SettingsError that names file and line.
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
  /** The values of a mapping by key; a key that is none of `known` is refused. */
  fields<Key extends string>(entry: Entry, known: readonly Key[]): Partial<Record<Key, Entry>>;
  items(entry: Entry): Entry[];
  text(entry: Entry): string;
  number(entry: Entry): number;
  flag(entry: Entry): boolean;
  refuse(entry: Entry, problem: string): never;
}

/** A hundred classes. */
const LIMIT_CHARACTERS = 16_384;

/** `file` is its name in messages. Throws SettingsError where the text is no YAML. */
export function createYamlReader(file: string, text: string): YamlReader {
  if (text.length > LIMIT_CHARACTERS)
    throw new SettingsError(`${file}: it has ${text.length} characters, over the limit of ${LIMIT_CHARACTERS}`);
  const lines = new LineCounter();
  // Which keys are there twice is asked of the known ones alone: among all it takes the square of their number.
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: false });
  const refuseAt = (offset: number, problem: string): never => {
    throw new SettingsError(`${file}:${lines.linePos(offset).line}: ${problem}`);
  };
  const [problem] = document.errors;
  if (problem !== undefined) refuseAt(problem.pos[0], problem.message.split(" at line ")[0] ?? problem.message);
  const refuse = (entry: Entry, what: string): never => refuseAt(entry.node.range?.[0] ?? 0, `${entry.name} ${what}`);
  const scalar = (entry: Entry): unknown => (isScalar(entry.node) ? entry.node.value : undefined);
  if (document.contents === null) return refuseAt(0, "the file is empty; it needs device-classes");
  return {
    root: { name: "the file", node: document.contents },
    fields: (entry, known) => fieldsOf(entry, known, refuse),
    items: (entry) => {
      if (!isSeq(entry.node)) return refuse(entry, "is no list");
      return entry.node.items.map((item, index) => ({ name: `${entry.name}[${index}]`, node: item as Node }));
    },
    text: (entry) => {
      const value = scalar(entry);
      // A stripe size of 64 is a number to YAML and a text to lvcreate.
      return typeof value === "string" || typeof value === "number" ? String(value) : refuse(entry, "is no text");
    },
    number: (entry) => {
      const value = scalar(entry);
      return typeof value === "number" && Number.isFinite(value) ? value : refuse(entry, "is no number");
    },
    flag: (entry) => {
      const value = scalar(entry);
      return typeof value === "boolean" ? value : refuse(entry, "is neither true nor false");
    },
    refuse,
  };
}

function fieldsOf<Key extends string>(
  entry: Entry,
  known: readonly Key[],
  refuse: (entry: Entry, problem: string) => never,
): Partial<Record<Key, Entry>> {
  if (!isMap(entry.node)) return refuse(entry, "is no mapping");
  const found: Partial<Record<Key, Entry>> = {};
  const seen = new Set<Key>();
  for (const { key, value } of entry.node.items as Pair<ParsedNode, ParsedNode | null>[]) {
    const name = String(isScalar(key) ? key.value : key);
    const here: Entry = { name: `"${name}"`, node: key };
    const field = known.find((candidate) => candidate === name);
    if (field === undefined) return refuse(here, `is not known here; known are ${known.join(", ")}`);
    if (seen.has(field)) return refuse(here, "is there twice");
    seen.add(field);
    if (value === null || (isScalar(value) && value.value === null)) continue; // as if it were not there
    if (isAlias(value)) return refuse(here, "is an alias; write the value itself");
    found[field] = { name, node: value };
  }
  return found;
}
