// A set of field paths, as managed fields record them: a tree whose nodes are members or only lead to members. The text
// form is FieldsV1: "f:name" for a field, "k:{...}" for a keyed list item, "v:..." for a set item, "." for the node itself.
import { isJsonObject, type JsonObject } from "../store/json.ts";

export interface FieldSet {
  readonly member: boolean;
  readonly children: ReadonlyMap<string, FieldSet>;
}

export type FieldPath = readonly string[];

export const EMPTY_SET: FieldSet = { member: false, children: new Map() };

export function isEmptySet(set: FieldSet): boolean {
  return !set.member && set.children.size === 0;
}

/** Collects paths into a set. */
export class FieldSetBuilder {
  readonly #root: MutableSet = { member: false, children: new Map() };

  insert(path: FieldPath): void {
    let node = this.#root;
    for (const element of path) {
      let child = node.children.get(element);
      if (child === undefined) {
        child = { member: false, children: new Map() };
        node.children.set(element, child);
      }
      node = child;
    }
    node.member = true;
  }

  build(): FieldSet {
    return this.#root;
  }
}

interface MutableSet {
  member: boolean;
  readonly children: Map<string, MutableSet>;
}

export function unionSets(left: FieldSet, right: FieldSet): FieldSet {
  return combine(left, right, (inLeft, inRight) => inLeft || inRight);
}

export function differenceOfSets(left: FieldSet, right: FieldSet): FieldSet {
  return combine(left, right, (inLeft, inRight) => inLeft && !inRight);
}

export function intersectionOfSets(left: FieldSet, right: FieldSet): FieldSet {
  return combine(left, right, (inLeft, inRight) => inLeft && inRight);
}

function combine(left: FieldSet, right: FieldSet, keep: (inLeft: boolean, inRight: boolean) => boolean): FieldSet {
  const children = new Map<string, FieldSet>();
  for (const element of new Set([...left.children.keys(), ...right.children.keys()])) {
    const child = combine(left.children.get(element) ?? EMPTY_SET, right.children.get(element) ?? EMPTY_SET, keep);
    if (!isEmptySet(child)) children.set(element, child);
  }
  return { member: keep(left.member, right.member), children };
}

export function equalSets(left: FieldSet, right: FieldSet): boolean {
  if (left.member !== right.member || left.children.size !== right.children.size) return false;
  for (const [element, child] of left.children) {
    const other = right.children.get(element);
    if (other === undefined || !equalSets(child, other)) return false;
  }
  return true;
}

/** Every member's path, in insertion order. */
export function* memberPaths(set: FieldSet, path: FieldPath = []): Generator<FieldPath> {
  if (set.member) yield path;
  for (const [element, child] of set.children) yield* memberPaths(child, [...path, element]);
}

export function encodeFieldSet(set: FieldSet): JsonObject {
  const encoded: JsonObject = {};
  for (const [element, child] of [...set.children].sort(([left], [right]) => (left < right ? -1 : 1))) {
    const inner = encodeFieldSet(child);
    encoded[element] = child.member && child.children.size > 0 ? { ".": {}, ...inner } : inner;
  }
  return encoded;
}

export function decodeFieldSet(encoded: unknown): FieldSet {
  const builder = new FieldSetBuilder();
  const visit = (node: unknown, path: FieldPath): void => {
    if (!isJsonObject(node)) return;
    const keys = Object.keys(node);
    if (path.length > 0 && (keys.length === 0 || keys.includes("."))) builder.insert(path);
    for (const key of keys) if (key !== ".") visit(node[key], [...path, key]);
  };
  visit(encoded, []);
  return builder.build();
}

/** A path for people: `.spec.members[name="a"].size`. */
export function formatFieldPath(path: FieldPath): string {
  return path.map(formatElement).join("");
}

function formatElement(element: string): string {
  const rest = element.slice(2);
  if (element.startsWith("f:")) return `.${rest}`;
  if (element.startsWith("v:")) return `[=${rest}]`;
  const keys = Object.entries(JSON.parse(rest) as JsonObject);
  return `[${keys.map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(",")}]`;
}
