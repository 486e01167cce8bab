// all, exists, exists_one, filter and map: loops over a list, or over the keys of a map. Lists come from literals only, so a
// loop is bounded; labels and annotations are bounded when it runs.
import type { Compilation, Local } from "../compilation.ts";
import { CompileError, EvaluationFailure, fail, failRule } from "../errors.ts";
import { MAX_VISITED_KEYS } from "../limits.ts";
import type { ASTNode } from "../parser.ts";
import {
  isScalar,
  itemTypeOf,
  type Run,
  runOf,
  type ScalarType,
  type Scope,
  type Term,
  term,
  type Value,
  type ValueType,
} from "../term.ts";
import { isReservedName } from "./selection.ts";

const COMPREHENSIONS = ["all", "exists", "exists_one", "filter", "map"] as const;
type Comprehension = (typeof COMPREHENSIONS)[number];

export function isComprehension(name: string): name is Comprehension {
  return COMPREHENSIONS.some((one) => one === name);
}

/** The item that a loop is at. Loops are synchronous and never re-entered, so one cell per loop is enough. */
interface Cell {
  item: Value;
}
interface Loop {
  readonly items: Run<readonly Value[]>;
  readonly cell: Cell;
}

/** Compiles `receiver.name(variable, body…)`. Throws CompileError. */
export function compileComprehension(
  node: ASTNode,
  name: Comprehension,
  receiver: ASTNode,
  args: readonly ASTNode[],
  context: Compilation,
): Term {
  const [variable, first, second] = args;
  const isComplete = args.length === 2 || (name === "map" && args.length === 3);
  if (!isComplete || variable?.op !== "id" || first === undefined)
    throw new CompileError(node, `${name}() takes a variable and a condition`, `write ${name}(x, x != '')`);
  if (isReservedName(variable.args, context))
    throw new CompileError(variable, `${variable.args} already has a meaning`, "name the variable otherwise");
  const collection = context.compile(receiver);
  const cell: Cell = { item: 0 };
  const type = visitedType(collection);
  const local: Local = { type, run: () => cell.item };
  const inner = (body: ASTNode) => context.compileWith(variable.args, local, body);
  const loop = { items: itemsRun(collection), cell };
  if (name === "map")
    return mapTerm(node, collection, loop, second === undefined ? [inner(first)] : [inner(first), inner(second)]);
  const condition = requireBool(name, inner(first));
  if (name === "filter") {
    return loopTerm(node, `list<${type}>`, collection, [condition], filterRun(loop, runOf(condition)));
  }
  return loopTerm(node, "bool", collection, [condition], QUANTIFIERS[name](loop, runOf(condition)));
}

function visitedType(collection: Term): ScalarType {
  const item = itemTypeOf(collection.type);
  if (item === undefined) throw new CompileError(collection.range, `a ${collection.type} has no items to visit`);
  return collection.type.startsWith("map<") ? "string" : item;
}

function itemsRun(collection: Term): Run<readonly Value[]> {
  if (collection.type.startsWith("list<")) return runOf(collection);
  const map = runOf<Readonly<Record<string, unknown>>>(collection);
  return (scope) => {
    const keys = Object.keys(map(scope));
    if (keys.length <= MAX_VISITED_KEYS) return keys;
    failRule(`a loop over ${keys.length} keys is over the limit of ${MAX_VISITED_KEYS}`);
  };
}

function requireBool(name: string, condition: Term): Term {
  if (condition.type === "bool") return condition;
  throw new CompileError(condition.range, `the condition of ${name}() is a bool, not a ${condition.type}`);
}

/** The body runs once per item. It never counts as constant: its variable changes. */
function loopTerm(node: ASTNode, type: ValueType, collection: Term, bodies: readonly Term[], run: Run<Value>): Term {
  const bodyCost = bodies.reduce((sum, body) => sum + body.cost, 1);
  const size = isScalar(type) ? 0 : collection.size;
  const cost = 1 + collection.cost + collection.size * bodyCost;
  return term({ range: node, type, operands: [], run, size, cost });
}

function mapTerm(node: ASTNode, collection: Term, loop: Loop, bodies: readonly Term[]): Term {
  const transform = bodies.at(-1) as Term;
  if (!isScalar(transform.type)) throw new CompileError(transform.range, "a list of lists or maps is not supported");
  const condition = bodies.length === 2 ? requireBool("map", bodies[0] as Term) : undefined;
  const keep = condition === undefined ? () => true : runOf<boolean>(condition);
  const run = (scope: Scope) => {
    const results: Value[] = [];
    for (loop.cell.item of loop.items(scope)) if (keep(scope)) results.push(transform.run(scope));
    return results;
  };
  return loopTerm(node, `list<${transform.type}>`, collection, bodies, run);
}

function filterRun({ items, cell }: Loop, condition: Run<boolean>): Run<Value> {
  return (scope) =>
    items(scope).filter((item) => {
      cell.item = item;
      return condition(scope);
    });
}

const QUANTIFIERS = {
  all: (loop: Loop, condition: Run<boolean>) => decidedBy(false, loop, condition),
  exists: (loop: Loop, condition: Run<boolean>) => decidedBy(true, loop, condition),
  exists_one:
    ({ items, cell }: Loop, condition: Run<boolean>): Run<boolean> =>
    (scope) => {
      let count = 0;
      for (cell.item of items(scope)) if (condition(scope)) count += 1;
      return count === 1;
    },
};

/** A chain of && (all) or || (exists): one decisive item absorbs the failures of others. */
function decidedBy(decisive: boolean, { items, cell }: Loop, condition: Run<boolean>): Run<boolean> {
  return (scope) => {
    let failed: EvaluationFailure | undefined;
    for (cell.item of items(scope)) {
      try {
        if (condition(scope) === decisive) return decisive;
      } catch (failure) {
        if (!(failure instanceof EvaluationFailure)) throw failure;
        failed ??= failure;
      }
    }
    if (failed !== undefined) fail(failed.kind, failed.message);
    return !decisive;
  };
}
