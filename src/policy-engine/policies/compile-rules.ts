// From a policy's rules to what decide evaluates: CEL compiled, the one size that each asks for, its window and its timer.
import type { PolicyRule } from "../../contracts/kinds/volume-policy.ts";
import { CompileError, problemOf } from "../cel/errors.ts";
import { type Compiled, compileExpression, type Expression, type Variables } from "../cel/expression.ts";
import type { CompiledRule, RuleSize } from "./compiled-policy.ts";
import type { FieldReader } from "./field-reader.ts";

const SIZE_FIELDS = ["targetUsed", "by", "to", "toExpression"] as const;

/** All rules that can be read; the reader has the problems of the others. */
export function compileRules(rules: readonly PolicyRule[], variables: Variables, reader: FieldReader): CompiledRule[] {
  const names = new Set<string>();
  return rules.flatMap((rule, index) => {
    const field = `spec.rules[${index}]`;
    if (names.has(rule.name)) reader.refuse(`${field}.name`, `there is already a rule ${rule.name}`);
    names.add(rule.name);
    return compileRule(field, rule, variables, reader) ?? [];
  });
}

function compileRule(
  field: string,
  rule: PolicyRule,
  variables: Variables,
  reader: FieldReader,
): CompiledRule | undefined {
  const when = expressionOf(`${field}.when`, compileExpression(rule.when, "bool", variables), reader);
  const size = readSize(field, rule, variables, reader);
  const forMs = reader.duration(`${field}.for`, rule.for) ?? 0;
  const message =
    rule.messageExpression === undefined
      ? undefined
      : expressionOf(
          `${field}.messageExpression`,
          compileExpression(rule.messageExpression, "string", variables),
          reader,
        );
  if (rule.action === "Shrink") refuseGrowth(field, { when, size }, reader);
  if (when === undefined || size === undefined) return undefined;
  return {
    name: rule.name,
    action: rule.action,
    when,
    size,
    forMs,
    mode: rule.mode,
    message,
    windowMs: Math.max(0, ...when.windows.map(({ windowMs }) => windowMs)),
    timerKey: [rule.name, rule.when, rule.toExpression ?? ""].map((text) => textOf(text, variables)).join(": "),
  };
}

/** All that a rule evaluates. */
export function expressionsOf({ when, size, message }: CompiledRule): Pick<Expression<unknown>, "growth">[] {
  return [
    when,
    ...(size.kind === "toExpression" ? [size.expression] : []),
    ...(message === undefined ? [] : [message]),
  ];
}

interface Parts {
  readonly when: Expression<boolean> | undefined;
  readonly size: RuleSize | undefined;
}

/** How fast a volume fills says nothing of what it has needed, and that alone says how small it may be. */
function refuseGrowth(field: string, { when, size }: Parts, reader: FieldReader): void {
  const read = [
    [`${field}.when`, when],
    [`${field}.toExpression`, size?.kind === "toExpression" ? size.expression : undefined],
  ] as const;
  for (const [name, expression] of read) {
    const fact = expression?.reads.find((one) => GROWTH_FACTS.includes(one));
    if (expression === undefined || fact === undefined) continue;
    const start = Math.max(0, expression.source.search(GROWTH_READ));
    const refusal = new CompileError(
      { start, end: start },
      `a Shrink rule cannot read ${fact}: a volume that does not grow now may need its size again tomorrow`,
      "compare a peak: volume.usedRatioMax('24h') < 0.3",
    );
    reader.refuseExpression(name, problemOf(expression.source, refusal));
  }
}

const GROWTH_FACTS = ["volume.growthBytesPerSecond", "volume.secondsToFull"];
/** Where an expression has it, or a variable that does. */
const GROWTH_READ = /\bvolume\s*\.\s*(growthBytesPerSecond|secondsToFull)\b|\bvariables\s*\./;

/** An expression with the sources of the variables that it reads. A text that only looks like one adds nothing wrong. */
function textOf(source: string, { byName }: Variables): string {
  const sources = new Map<string, string>();
  const add = (text: string): void => {
    for (const [, name = ""] of text.matchAll(VARIABLE)) {
      const variable = byName.get(name);
      if (variable === undefined || sources.has(name)) continue;
      sources.set(name, variable.source);
      add(variable.source);
    }
  };
  add(source);
  return [source, ...[...sources].map(([name, text]) => `${name} = ${text}`)].join("; ");
}

const VARIABLE = /\bvariables\s*\.\s*([a-zA-Z_][a-zA-Z0-9_]*)/g;

function readSize(field: string, rule: PolicyRule, variables: Variables, reader: FieldReader): RuleSize | undefined {
  const given = SIZE_FIELDS.filter((name) => rule[name] !== undefined);
  if (given.length !== 1) {
    const found = given.length === 0 ? "none" : given.join(" and ");
    reader.refuse(field, `exactly one of ${SIZE_FIELDS.join(", ")} is needed; there is ${found}`);
    return undefined;
  }
  if (rule.toExpression !== undefined) {
    const expression = expressionOf(
      `${field}.toExpression`,
      compileExpression(rule.toExpression, "size", variables),
      reader,
    );
    return expression && { kind: "toExpression", expression };
  }
  if (rule.by !== undefined) return readDifference(`${field}.by`, rule, rule.by, reader);
  if (rule.to !== undefined) {
    const bytes = reader.size(`${field}.to`, rule.to);
    return bytes === undefined ? undefined : { kind: "to", bytes };
  }
  const ratio = reader.percent(`${field}.targetUsed`, rule.targetUsed, { belowWhole: true });
  return ratio === undefined ? undefined : { kind: "targetUsed", ratio };
}

function readDifference(field: string, rule: PolicyRule, text: string, reader: FieldReader): RuleSize | undefined {
  if (!text.endsWith("%")) {
    const bytes = reader.size(field, text);
    return bytes === undefined ? undefined : { kind: "byBytes", bytes };
  }
  const ratio = reader.percent(field, text, { belowWhole: rule.action === "Shrink" });
  return ratio === undefined ? undefined : { kind: "byRatio", ratio };
}

function expressionOf<T>(field: string, compiled: Compiled<T>, reader: FieldReader): Expression<T> | undefined {
  if (compiled.ok) return compiled.expression;
  for (const problem of compiled.problems) reader.refuseExpression(field, problem);
  return undefined;
}
