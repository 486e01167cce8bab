// List and map literals: items of one scalar type, keys that are distinct strings.
import type { ASTNode } from "../parser.ts";
import { Refusal } from "../problem.ts";
import { isScalar, type ScalarType, type Term, term, type Value } from "../term.ts";

/** Compiles `[a, b, …]`. Throws Refusal. */
export function compileList(node: ASTNode, items: readonly Term[]): Term {
  const type = itemType(node, items);
  const runs = items.map((item) => item.run);
  const size = items.length;
  return term({
    range: node,
    type: `list<${type}>`,
    operands: items,
    run: (scope) => runs.map((run) => run(scope)),
    size,
  });
}

/** Compiles `{'a': 1, …}`. Throws Refusal. */
export function compileMap(node: ASTNode, entries: readonly (readonly [Term, Term])[]): Term {
  const type = itemType(
    node,
    entries.map(([, value]) => value),
  );
  const keys = entries.map(([key]) => literalKey(key));
  keys.forEach((key, index) => {
    const range = entries[index]?.[0].range ?? node;
    if (keys.indexOf(key) !== index) throw new Refusal(range, `the key "${key}" is there twice`);
  });
  const values = entries.map(([, value]) => value);
  const run = (scope: Parameters<Term["run"]>[0]) => {
    const map = Object.create(null) as Record<string, Value>;
    values.forEach((value, index) => {
      map[keys[index] as string] = value.run(scope);
    });
    return map;
  };
  return term({ range: node, type: `map<${type}>`, operands: values, run, size: entries.length });
}

function literalKey({ type, constant, range }: Term): string {
  if (type === "string" && typeof constant === "string") return constant;
  throw new Refusal(range, "the keys of a map are literal strings");
}

function itemType(node: ASTNode, items: readonly Term[]): ScalarType {
  const type = items[0]?.type;
  if (type === undefined) throw new Refusal(node, "an empty list or map is the same for every volume");
  if (!isScalar(type)) throw new Refusal(node, "lists and maps of lists or maps are not supported");
  const other = items.find((item) => item.type !== type);
  if (other === undefined) return type;
  throw new Refusal(other.range, `this is a ${other.type}, the items before it are of type ${type}`);
}
