// x-kubernetes-validations: CEL rules of a schema, compiled once when its kind is added and evaluated on every write. A rule
// that cannot be compiled or evaluated here is an error then, never skipped.
import { type ASTNode, Environment } from "@marcbachmann/cel-js";
import { fieldSchema, partsByElement } from "../apply/field-structure.ts";
import { isJsonObject } from "../store/json.ts";
import { registerQuantities } from "./cel-quantity.ts";
import type { FieldError } from "./field-errors.ts";
import type { Schema, ValidationRule } from "./schema.ts";

/** Characters of one rule. */
const RULE_CHARACTERS_MAX = 10_000;

interface CompiledRule {
  readonly rule: ValidationRule;
  readonly evaluate: (context: CelContext) => unknown;
  readonly messageExpression: ((context: CelContext) => unknown) | undefined;
  /** It reads oldSelf and so says something about a change only. */
  readonly isTransition: boolean;
}

type CelContext = { self: unknown; oldSelf?: unknown };

/** The rules of a schema, by the node that carries them. */
export type CompiledRules = ReadonlyMap<Schema, readonly CompiledRule[]>;

/** Compiles every rule under a schema; what does not compile is an error at its place in the schema. */
export function compileRules(root: Schema, rootPath: string): { rules: CompiledRules; errors: FieldError[] } {
  const rules = new Map<Schema, CompiledRule[]>();
  const errors: FieldError[] = [];
  const environment = ruleEnvironment();
  const visit = (schema: Schema, path: string): void => {
    (schema["x-kubernetes-validations"] ?? []).forEach((rule, i) => {
      const compiled = compileRule(environment, schema, rule);
      if (typeof compiled === "string")
        errors.push(ruleError(`${path}.x-kubernetes-validations[${i}].rule`, rule, compiled));
      else rules.set(schema, [...(rules.get(schema) ?? []), compiled]);
    });
    for (const [place, child] of childSchemas(schema)) visit(child, `${path}.${place}`);
  };
  visit(root, rootPath);
  return { rules, errors };
}

/** Names and functions that a rule has here: of Kubernetes' libraries those that our rules need. */
function ruleEnvironment(): Environment {
  const environment = new Environment({ enableOptionalTypes: true, homogeneousAggregateLiterals: false })
    .registerVariable("self", "dyn")
    .registerVariable("oldSelf", "dyn")
    .registerFunction("list.sum(): int", (items: bigint[]) => items.reduce((sum, item) => sum + item, 0n));
  return registerQuantities(environment);
}

function* childSchemas(schema: Schema): Generator<[string, Schema]> {
  for (const [name, field] of Object.entries(schema.properties ?? {})) yield [`properties[${name}]`, field];
  if (schema.items) yield ["items", schema.items];
  if (typeof schema.additionalProperties === "object") yield ["additionalProperties", schema.additionalProperties];
}

function ruleError(field: string, rule: ValidationRule, why: string): FieldError {
  const message = `Invalid value: ${goText(rule)}: compilation failed: ${why}`;
  return { field, reason: "FieldValueInvalid", message };
}

// The rule as kube-apiserver shows it: its Go structure as JSON, in which > and its like are escaped.
function goText({ rule, message = "", messageExpression = "", reason, fieldPath = "" }: ValidationRule): string {
  const text = JSON.stringify({
    Rule: rule,
    Message: message,
    MessageExpression: messageExpression,
    Reason: reason ?? null,
    FieldPath: fieldPath,
    OptionalOldSelf: null,
  });
  return text.replace(/[<>&]/g, (each) => `\\u00${each.charCodeAt(0).toString(16)}`);
}

function compileRule(environment: Environment, schema: Schema, rule: ValidationRule): CompiledRule | string {
  if (rule.rule.length > RULE_CHARACTERS_MAX) return `it is longer than ${RULE_CHARACTERS_MAX} characters`;
  try {
    const program = environment.parse(rule.rule);
    const checked = program.check();
    if (!checked.valid) return checked.error?.message ?? "it does not type-check";
    if (checked.type !== "bool" && checked.type !== "dyn") return `it gives ${checked.type}, not bool`;
    const unknown = unknownField(program.ast, schema);
    if (unknown !== undefined) return `undefined field '${unknown}'`;
    const message = rule.messageExpression === undefined ? undefined : environment.parse(rule.messageExpression);
    const messageType = message?.check();
    if (messageType && !(messageType.valid && ["string", "dyn"].includes(messageType.type ?? "")))
      return `messageExpression gives no string: ${messageType.error?.message ?? messageType.type}`;
    return { rule, evaluate: program, messageExpression: message, isTransition: mentions(program.ast, "oldSelf") };
  } catch (error) {
    return (error as Error).message;
  }
}

function* descendants(node: unknown): Generator<ASTNode> {
  if (Array.isArray(node)) for (const each of node) yield* descendants(each);
  if (typeof node !== "object" || node === null || !("op" in node)) return;
  yield node as ASTNode;
  yield* descendants((node as ASTNode).args);
}

function mentions(root: ASTNode, variable: string): boolean {
  return [...descendants(root)].some((node) => node.op === "id" && node.args === variable);
}

// self and oldSelf are dynamic to the type checker, so their plain field chains are checked against the schema here.
function unknownField(root: ASTNode, schema: Schema): string | undefined {
  for (const node of descendants(root)) {
    if (node.op !== ".") continue;
    const [receiver, name] = node.args;
    const at = schemaOf(receiver, schema);
    if (at?.type === "object" && !at["x-kubernetes-preserve-unknown-fields"] && !isMap(at) && !fieldSchema(at, name))
      return name;
  }
  return undefined;
}

function schemaOf(node: ASTNode, root: Schema): Schema | undefined {
  if (node.op === "id") return node.args === "self" || node.args === "oldSelf" ? root : undefined;
  if (node.op !== ".") return undefined;
  const [receiver, name] = node.args;
  const at = schemaOf(receiver, root);
  return at && fieldSchema(at, name);
}

function isMap(schema: Schema): boolean {
  return schema.additionalProperties !== undefined;
}

/** Which rules a written value breaks; `before` is the stored one, undefined on creation. */
export function checkRules(
  rules: CompiledRules,
  schema: Schema,
  value: unknown,
  before: unknown,
  path: string,
): FieldError[] {
  if (value === undefined || value === null || rules.size === 0) return [];
  const errors: FieldError[] = [];
  for (const rule of rules.get(schema) ?? []) {
    if (rule.isTransition && before === undefined) continue;
    const why = brokenBy(rule, schema, value, before);
    if (why !== undefined) errors.push(brokenRule(rule, value, path, why));
  }
  return [...errors, ...childErrors(rules, schema, value, before, path)];
}

function brokenBy(rule: CompiledRule, schema: Schema, value: unknown, before: unknown): string | undefined {
  const context: CelContext = { self: toCel(schema, value), oldSelf: toCel(schema, before) };
  try {
    if (rule.evaluate(context) === true) return undefined;
    const message = rule.messageExpression?.(context);
    return typeof message === "string" ? message : (rule.rule.message ?? `failed rule: ${rule.rule.rule}`);
  } catch (error) {
    return `rule evaluation error: ${(error as Error).message.split("\n")[0]}: ${rule.rule.rule}`;
  }
}

const REASONS: Readonly<Record<string, string>> = {
  FieldValueForbidden: "Forbidden",
  FieldValueRequired: "Required value",
  FieldValueDuplicate: "Duplicate value",
};

function brokenRule({ rule }: CompiledRule, value: unknown, path: string, why: string): FieldError {
  const field = `${path}${rule.fieldPath ?? ""}`;
  const reason = rule.reason ?? "FieldValueInvalid";
  // kube-apiserver shows no objects and lists, only what fits a line.
  const shown = isJsonObject(value) || Array.isArray(value) ? "" : `: ${JSON.stringify(value)}`;
  const label = REASONS[reason] ?? `Invalid value${shown}`;
  return { field: field === "" ? "<nil>" : field, reason, message: `${label}: ${why}` };
}

// An item of a list has a predecessor only where the schema says which one it is: by the keys of a keyed list.
function childErrors(
  rules: CompiledRules,
  schema: Schema,
  value: unknown,
  before: unknown,
  path: string,
): FieldError[] {
  if (Array.isArray(value)) {
    const items = schema.items;
    if (items === undefined) return [];
    const elements = [...(partsByElement(schema, value)?.keys() ?? [])];
    const old = Array.isArray(before) ? partsByElement(schema, before) : undefined;
    return value.flatMap((item, i) =>
      checkRules(rules, items, item, old?.get(elements[i] ?? "")?.value, `${path}[${i}]`),
    );
  }
  if (!isJsonObject(value)) return [];
  return Object.entries(value).flatMap(([key, item]) => {
    const field = fieldSchema(schema, key);
    const old = isJsonObject(before) ? before[key] : undefined;
    return field === undefined ? [] : checkRules(rules, field, item, old, path === "" ? key : `${path}.${key}`);
  });
}

/** A JSON value as CEL sees it under its schema: integers are int, numbers double, date-times timestamps. */
function toCel(schema: Schema | undefined, value: unknown): unknown {
  if (typeof value === "number") {
    const isInt = schema?.type === "integer" || (schema?.type !== "number" && Number.isInteger(value));
    return isInt ? BigInt(value) : value;
  }
  if (typeof value === "string" && schema?.format === "date-time") return new Date(value);
  if (Array.isArray(value)) return value.map((item) => toCel(schema?.items, item));
  if (!isJsonObject(value)) return value;
  const object: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) object[key] = toCel(schema && fieldSchema(schema, key), item);
  return object;
}
