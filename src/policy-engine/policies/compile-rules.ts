// From a policy's rules to what decide evaluates: CEL compiled, the one size that each asks for, its window and its timer.
import type { PolicyRule } from "../../api/volume-policy.ts";
import { type Compiled, compileExpression, type Expression } from "../cel/expression.ts";
import type { Variables } from "../cel/variables.ts";
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
  if (when === undefined || size === undefined) return undefined;
  return {
    name: rule.name,
    action: rule.action,
    when,
    size,
    forMs,
    message,
    windowMs: Math.max(0, ...when.windows.map(({ windowMs }) => windowMs)),
    timerKey: `${rule.name}: ${rule.when}`,
  };
}

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
