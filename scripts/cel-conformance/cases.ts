// The conformance cases of cel-spec, flattened: what is written, and what the specification says of it.
import { tests } from "@bufbuild/cel-spec/testdata/conformance.js";
import type { SerializedIncrementalTestSuite } from "@bufbuild/cel-spec/testdata/tests.js";

/** A value as the specification's JSON writes it: one member, named for its type. */
export type SpecifiedValue = Readonly<Record<string, unknown>>;

export interface ConformanceCase {
  /** The file of the specification that it is in, such as "comparisons". */
  readonly group: string;
  /** Within the specification, such as "comparisons/eq_literal/eq_int". */
  readonly path: string;
  readonly source: string;
  readonly bindings: Readonly<Record<string, SpecifiedValue>>;
  readonly expected: Expected;
}

export type Expected =
  | { readonly kind: "error" }
  | { readonly kind: "value"; readonly value: SpecifiedValue; readonly type: SpecifiedValue | undefined }
  /** Its type alone is specified. */
  | { readonly kind: "type"; readonly type: SpecifiedValue };

interface Original {
  readonly name?: string;
  readonly expr: string;
  readonly value?: SpecifiedValue;
  readonly typedResult?: { readonly result?: SpecifiedValue; readonly deducedType?: SpecifiedValue };
  readonly evalError?: unknown;
  /** Where names are looked up first: what is bound may be another one's. */
  readonly container?: string;
  readonly bindings?: Readonly<Record<string, { readonly value?: SpecifiedValue }>>;
}

export function conformanceCases(): ConformanceCase[] {
  return (tests.suites ?? []).flatMap((suite) => casesOf(suite, suite.name, suite.name));
}

function casesOf(suite: SerializedIncrementalTestSuite, group: string, path: string): ConformanceCase[] {
  const own = (suite.tests ?? []).map(({ original }) => caseOf(original as Original, group, path));
  return [...own, ...(suite.suites ?? []).flatMap((inner) => casesOf(inner, group, `${path}/${inner.name}`))];
}

function caseOf(original: Original, group: string, path: string): ConformanceCase {
  const bound = original.container === undefined ? Object.entries(original.bindings ?? {}) : [];
  const bindings = bound.map(([name, { value = {} }]) => [name, value] as const);
  return {
    group,
    path: `${path}/${original.name ?? ""}`,
    source: original.expr,
    bindings: Object.fromEntries(bindings),
    expected: expectedOf(original),
  };
}

/** A case without a result expects true: the specification's simple.proto. */
function expectedOf({ value, typedResult, evalError }: Original): Expected {
  if (evalError !== undefined) return { kind: "error" };
  const result = value ?? typedResult?.result;
  const type = typedResult?.deducedType;
  if (result === undefined && type !== undefined) return { kind: "type", type };
  return { kind: "value", value: result ?? { boolValue: true }, type };
}
