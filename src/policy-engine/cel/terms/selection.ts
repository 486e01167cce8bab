// Names, fields and items: `now`, `volume.usedRatio`, `variables.peak`, `volume.labels["tier"]`, `has(volume.labels.tier)`.
// Only names that a table holds are reachable, and only a map's own keys: nothing of JavaScript's objects is.
import type { Compilation } from "../compilation.ts";
import { CompileError, didYouMean, failRule, type SourceRange } from "../errors.ts";
import { FACT_OBJECTS, type Fact, NOW } from "../fact-table.ts";
import type { Int } from "../functions/int.ts";
import { type GrowthRead, growthWindowMs } from "../growth-reads.ts";
import { MAX_DEPTH, MAX_STRING_CHARS, MAX_VISITED_KEYS } from "../limits.ts";
import { type ASTNode, tooDeep } from "../parser.ts";
import { constantTerm, itemTypeOf, type Run, runOf, type ScalarType, type Term, term, type Value } from "../term.ts";
import { dashedKeyHint, dottedKeyHint } from "./map-keys.ts";

const ROOTS = [...FACT_OBJECTS.keys(), "variables", "now"];

type Keyed = Readonly<Record<string, Value>>;

/** Compiles a bare name. Throws CompileError. */
export function compileName(node: ASTNode, name: string, context: Compilation): Term {
  const local = context.locals.get(name);
  if (local !== undefined) return term({ range: node, type: local.type, operands: [], run: local.run });
  if (name === "now") return readFact(node, "now", NOW, context);
  if (isObject(name))
    throw new CompileError(node, `${name} is not a value by itself`, `name one of its fields: ${name}.…`);
  throw new CompileError(node, `unknown name ${name}`, nameHint(name, context));
}

/** For a name that is the field of an object of facts: which object. */
function nameHint(name: string, context: Compilation): string | undefined {
  const [owner] = [...FACT_OBJECTS].find(([, facts]) => facts.has(name)) ?? [];
  return owner === undefined
    ? didYouMean(name, [...ROOTS, ...context.locals.keys()])
    : `did you mean ${owner}.${name}?`;
}

function isObject(name: string): boolean {
  return FACT_OBJECTS.has(name) || name === "variables" || name === "math";
}

/** A name that an iteration variable may not take: it would hide what everybody knows under it. */
export function isReservedName(name: string, context: Compilation): boolean {
  return isObject(name) || name === "now" || context.locals.has(name);
}

/** Compiles `base.field`. Throws CompileError. */
export function compileField(node: ASTNode, base: ASTNode, field: string, context: Compilation): Term {
  if (base.op === "id" && base.args === "variables") return readVariable(node, field, context);
  const found = factAt(node, base, field);
  if (found !== undefined) return readFact(node, found.name, found.fact, context);
  const map = context.compile(base);
  if (!map.type.startsWith("map<"))
    throw new CompileError(fieldRange(node, field), `a ${map.type} has no field ${field}`, dottedKeyHint(base, field));
  return itemOfMap(node, map, constantTerm(fieldRange(node, field), "string", field));
}

/** The fact that a selection names; undefined when its base is not an object of facts. Throws CompileError for an unknown field. */
function factAt(node: ASTNode, base: ASTNode, field: string): { name: string; fact: Fact } | undefined {
  if (base.op !== "id") return undefined;
  const facts = FACT_OBJECTS.get(base.args);
  if (facts === undefined) return undefined;
  const fact = facts.get(field);
  if (fact !== undefined) return { name: `${base.args}.${field}`, fact };
  throw new CompileError(
    fieldRange(node, field),
    `${base.args} has no field ${field}`,
    didYouMean(field, facts.keys()),
  );
}

/** The field is the last thing that a selection spells. */
function fieldRange(node: ASTNode, field: string): SourceRange {
  return { start: node.end - field.length, end: node.end };
}

function readFact(node: ASTNode, name: string, fact: Fact, context: Compilation): Term {
  context.usage.reads.add(name);
  if (fact.over !== undefined) return readTrend(node, fact, fact.over, context);
  const size = itemTypeOf(fact.type) === undefined ? 0 : MAX_VISITED_KEYS;
  return term({ range: node, type: fact.type, unit: fact.unit, operands: [], run: fact.read, size });
}

function readTrend(node: ASTNode, { type, unit }: Fact, over: NonNullable<Fact["over"]>, context: Compilation): Term {
  const read = newGrowthRead(context);
  const { read: run } = over(() => growthWindowMs(read));
  return term({ range: node, type, unit, operands: [], run, growth: [read] });
}

/** Over the times that the expression itself reads: what it guards is known then. */
function knownTrend(node: ASTNode, over: NonNullable<Fact["over"]>, context: Compilation): Term {
  const { growth } = context.usage;
  const read = newGrowthRead(context);
  const isKnown = (one: GrowthRead): Run<boolean> => over(() => growthWindowMs(one)).isKnown;
  const run: Run<boolean> = (scope) => {
    const guarded = growth.filter(({ horizonMs }) => horizonMs > 0);
    return (guarded.length === 0 ? [read] : guarded).every((one) => isKnown(one)(scope));
  };
  return term({ range: node, type: "bool", operands: [], run });
}

function newGrowthRead({ usage }: Compilation): GrowthRead {
  const read: GrowthRead = { horizonMs: 0 };
  usage.growth.push(read);
  return read;
}

function readVariable(node: ASTNode, name: string, context: Compilation): Term {
  const variable = context.variables.get(name);
  if (variable === undefined) {
    const hint = didYouMean(name, context.variables.keys());
    throw new CompileError(fieldRange(node, name), `there is no variable ${name} before this`, hint);
  }
  const depth = context.depth + variable.usage.depth;
  if (depth > MAX_DEPTH) throw tooDeep(node);
  context.usage.depth = Math.max(context.usage.depth, depth);
  context.usage.variables.add(variable);
  const { type, unit, size, constant, growth, run } = variable;
  return { range: node, type, unit, cost: 1, size, constant, growth, run };
}

/** Compiles `base[index]`. Throws CompileError. */
export function compileIndex(node: ASTNode, base: ASTNode, index: Term, context: Compilation): Term {
  const collection = context.compile(base);
  if (collection.type.startsWith("map<")) return itemOfMap(node, collection, index);
  if (!collection.type.startsWith("list<")) throw new CompileError(node, `a ${collection.type} has no items`);
  if (index.type !== "int") throw new CompileError(index.range, `a list's index is an int, not a ${index.type}`);
  const list = runOf<readonly Value[]>(collection);
  const position = runOf<Int>(index);
  return term({
    range: node,
    type: itemTypeOf(collection.type) as ScalarType,
    operands: [collection, index],
    run: (scope) => itemAt(list(scope), position(scope)),
  });
}

function itemAt(list: readonly Value[], position: Int): Value {
  const item = list[Number(position)];
  if (item !== undefined) return item;
  failRule(`there is no item ${position} in a list of ${list.length}`);
}

function itemOfMap(node: ASTNode, collection: Term, index: Term): Term {
  if (index.type !== "string") throw new CompileError(index.range, `a map's key is a string, not a ${index.type}`);
  const type = itemTypeOf(collection.type) as ScalarType;
  const map = runOf<Keyed>(collection);
  const name = node.input.slice(collection.range.start, collection.range.end);
  return term({ range: node, type, operands: [collection, index], run: keyedRun(name, map, index) });
}

function keyedRun(name: string, map: Run<Keyed>, index: Term): Run<Value> {
  if (typeof index.constant === "string") {
    const key = index.constant;
    return (scope) => valueAt(name, map(scope), key);
  }
  const key = runOf<string>(index);
  return (scope) => valueAt(name, map(scope), key(scope));
}

function valueAt(name: string, map: Keyed, key: string): Value {
  const value = Object.hasOwn(map, key) ? map[key] : undefined;
  if (value === undefined) failRule(`${name} has no key "${key}"; guard it with "${key}" in ${name}`);
  if (typeof value !== "string" || value.length <= MAX_STRING_CHARS) return value;
  failRule(`${name} "${key}" has ${value.length} characters, over the limit of ${MAX_STRING_CHARS}`);
}

/** Compiles `has(base.field)`: a map has the key, or a fact has been measured. Throws CompileError. */
export function compileHas(node: ASTNode, argument: ASTNode | undefined, context: Compilation): Term {
  if (argument?.op !== ".")
    throw new CompileError(node, "has() needs a field", dashedKeyHint(argument) ?? "write has(volume.labels.tier)");
  const [base, field] = argument.args;
  const found = factAt(argument, base, field);
  if (found?.fact.over !== undefined) {
    context.usage.reads.add(found.name);
    return knownTrend(node, found.fact.over, context);
  }
  if (found?.fact.isKnown !== undefined) {
    context.usage.reads.add(found.name);
    return term({ range: node, type: "bool", operands: [], run: found.fact.isKnown });
  }
  const map = base.op === "." ? context.compile(base) : undefined;
  if (map === undefined || !map.type.startsWith("map<"))
    throw new CompileError(node, "has() asks for a key of labels or annotations, or for a measured number");
  const run = runOf<Keyed>(map);
  return term({ range: node, type: "bool", operands: [map], run: (scope) => Object.hasOwn(run(scope), field) });
}
