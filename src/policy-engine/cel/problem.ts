// Why an expression is refused, and where. Refusals are thrown while compiling and become problems at its one boundary.

export interface ExpressionProblem {
  message: string;
  /** What to write instead, in plain words. */
  hint?: string;
  /** Offsets in the source, end exclusive. */
  start: number;
  end: number;
  /** Both count from 1. */
  line: number;
  column: number;
}

export interface SourceRange {
  readonly start: number;
  readonly end: number;
}

/** The expression is refused at this range. */
export class Refusal extends Error {
  override name = "Refusal";
  readonly range: SourceRange;
  readonly hint: string | undefined;

  constructor(range: SourceRange, message: string, hint?: string) {
    super(message);
    this.range = { start: range.start, end: range.end };
    this.hint = hint;
  }
}

/** The problem that users see. The range is clipped to the source. */
export function problemOf(source: string, refusal: Refusal): ExpressionProblem {
  const start = Math.min(refusal.range.start, source.length);
  const before = source.slice(0, start);
  return {
    message: refusal.message,
    ...(refusal.hint === undefined ? {} : { hint: refusal.hint }),
    start,
    end: Math.min(Math.max(refusal.range.end, start), source.length),
    line: before.split("\n").length,
    column: start - before.lastIndexOf("\n"),
  };
}
