// && || ! and ?:. A failure on one side of && or || is absorbed when the other side alone decides, in either order.
import { EvaluationFailure } from "../failure.ts";
import type { ASTNode } from "../parser.ts";
import { Refusal } from "../problem.ts";
import type { Run } from "../scope.ts";
import { constantTerm, runOf, type Term, term } from "../term.ts";

/** Compiles `left && right` or `left || right`. Throws Refusal. */
export function compileLogic(node: ASTNode, operator: "&&" | "||", left: Term, right: Term): Term {
  requireBool(left, operator);
  requireBool(right, operator);
  const decisive = operator === "||";
  // A decisive constant makes the whole constant, whatever the other side reads.
  if (left.constant === decisive || right.constant === decisive) return constantTerm(node, "bool", decisive);
  return term({ range: node, type: "bool", operands: [left, right], run: absorbing(decisive, left, right) });
}

function absorbing(decisive: boolean, left: Term, right: Term): Run<boolean> {
  const leftRun = runOf<boolean>(left);
  const rightRun = runOf<boolean>(right);
  return (scope) => {
    let value: boolean;
    try {
      value = leftRun(scope);
    } catch (failure) {
      if (failure instanceof EvaluationFailure && rightRun(scope) === decisive) return decisive;
      throw failure;
    }
    return value === decisive ? decisive : rightRun(scope);
  };
}

/** Compiles `!operand`. Throws Refusal. */
export function compileNot(node: ASTNode, operand: Term): Term {
  requireBool(operand, "!");
  const run = runOf<boolean>(operand);
  return term({ range: node, type: "bool", operands: [operand], run: (scope) => !run(scope) });
}

/** Compiles `condition ? yes : no`: only the chosen branch runs. Throws Refusal. */
export function compileConditional(node: ASTNode, condition: Term, yes: Term, no: Term): Term {
  requireBool(condition, "?:");
  if (yes.type !== no.type)
    throw new Refusal(node, `the branches of ?: have different types: ${yes.type} and ${no.type}`);
  const test = runOf<boolean>(condition);
  return term({
    range: node,
    type: yes.type,
    unit: yes.unit === no.unit ? yes.unit : undefined,
    size: Math.max(yes.size, no.size),
    operands: [condition, yes, no],
    run: (scope) => (test(scope) ? yes.run(scope) : no.run(scope)),
  });
}

function requireBool(operand: Term, operator: string): void {
  if (operand.type !== "bool") throw new Refusal(operand.range, `${operator} needs a bool, not a ${operand.type}`);
}
