// An evaluation that ends without a value. Thrown inside compiled expressions, where && and || may absorb it, and turned
// into a plain result by Expression.evaluate: it never leaves this folder.

/** Each kind is the hold reason that it becomes. */
export type FailureKind = "NotEnoughHistory" | "StaleMetrics" | "MetricsContradict" | "RuleError";

/** Not an Error: a stack costs ten times the evaluation, and a missing label on 100,000 volumes is no bug of ours. */
export class EvaluationFailure {
  readonly kind: FailureKind;
  readonly message: string;

  constructor(kind: FailureKind, message: string) {
    this.kind = kind;
    this.message = message;
  }
}

/** Ends the evaluation. */
export function fail(kind: FailureKind, message: string): never {
  // eslint-disable-next-line @typescript-eslint/only-throw-error -- see EvaluationFailure: no stack is wanted
  throw new EvaluationFailure(kind, message);
}

/** Ends the evaluation for a fault of the expression itself, such as a division by zero. */
export function failRule(message: string): never {
  fail("RuleError", message);
}
