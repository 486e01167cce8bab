// The two ways in which an expression fails. At compile a CompileError becomes a problem with its place and a hint; at run time an
// EvaluationFailure becomes a plain result, unless && or || absorbs it. Neither leaves this folder as a throw.

/** Each kind is the hold reason that it becomes. */
export type FailureKind = "NotEnoughHistory" | "StaleMetrics" | "MetricsInconsistent" | "RuleError";

/** Not an Error: a stack costs ten times the evaluation, and a missing label on 100,000 volumes is not a bug of ours. */
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
export class CompileError extends Error {
  override name = "CompileError";
  readonly range: SourceRange;
  readonly hint: string | undefined;

  constructor(range: SourceRange, message: string, hint?: string) {
    super(message);
    this.range = { start: range.start, end: range.end };
    this.hint = hint;
  }
}

/** The problem that users see. The range is clipped to the source. */
export function problemOf(source: string, refusal: CompileError): ExpressionProblem {
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

/** More edits than this and the names have nothing to do with each other. */
const MAX_EDITS = 3;

/** A hint naming the closest of the known names, or listing all of them when none is close. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const names = [...known];
  const wanted = name.toLowerCase();
  let best: { name: string; edits: number } | undefined;
  for (const candidate of names) {
    // So many edits at least: one of thousands of characters is compared with none.
    if (Math.abs(candidate.length - name.length) > MAX_EDITS) continue;
    const edits = editDistance(wanted, candidate.toLowerCase());
    if (best === undefined || edits < best.edits) best = { name: candidate, edits };
  }
  const tolerance = Math.min(MAX_EDITS, Math.ceil(name.length / 3));
  if (best !== undefined && best.edits <= tolerance) return `did you mean ${best.name}?`;
  return names.length === 0 ? "there are none" : `there are ${names.join(", ")}`;
}

/** Levenshtein's distance, one row at a time. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const replaced = (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
