// Keys of labels that cannot be spelt as fields, since they have dashes or dots: what their author meant is said where they are refused.
import type { Compilation } from "../compilation.ts";
import { CompileError } from "../errors.ts";
import { FACT_OBJECTS } from "../fact-table.ts";
import type { ASTNode } from "../parser.ts";

/** `volume.labels.my-tier` is a subtraction. Throws CompileError. */
export function refuseDashedKey(node: ASTNode, left: ASTNode, right: ASTNode, { locals }: Compilation): void {
  if (right.op !== "id" || locals.has(right.args)) return;
  const key = fieldOfMap(left);
  if (key === undefined || FACT_OBJECTS.has(right.args) || right.args === "variables") return;
  const item = `${key.map}['${key.field}-${right.args}']`;
  throw new CompileError(node, `${key.map}.${key.field}-${right.args} is a subtraction`, `a key with a dash: ${item}`);
}

/** The hint for `has(volume.labels.my-tier)`, which has a subtraction in it. */
export function dashedKeyHint(argument: ASTNode | undefined): string | undefined {
  if (argument?.op !== "-" || argument.args[1].op !== "id") return undefined;
  const key = fieldOfMap(argument.args[0]);
  return key && `a key with a dash: '${key.field}-${argument.args[1].args}' in ${key.map}`;
}

/** The hint for `volume.labels.app.kubernetes`, by its base. */
export function dottedKeyHint(base: ASTNode, field: string): string | undefined {
  const key = fieldOfMap(base);
  return key && `a key with dots: ${key.map}['${key.field}.${field}…']`;
}

/** Of `volume.labels.tier`: "volume.labels" and "tier". */
function fieldOfMap(node: ASTNode): { readonly map: string; readonly field: string } | undefined {
  if (node.op !== ".") return undefined;
  const [base, field] = node.args;
  if (base.op !== "." || base.args[0].op !== "id") return undefined;
  const [owner, name] = [base.args[0].args, base.args[1]];
  const isMap = FACT_OBJECTS.get(owner)?.get(name)?.type.startsWith("map<") === true;
  return isMap ? { map: `${owner}.${name}`, field } : undefined;
}
