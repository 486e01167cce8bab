// What the dialect makes of one conformance case: right, refused when it is compiled, or wrong. Nothing is wrong that is refused.
import { EvaluationFailure } from "../../src/policy-engine/cel/errors.ts";
import { compileVariables } from "../../src/policy-engine/cel/expression.ts";
import type { Scope } from "../../src/policy-engine/cel/term.ts";
import type { ConformanceCase, SpecifiedValue } from "./cases.ts";
import { type AtRunTime, readAtRunTime } from "./read-at-run-time.ts";

export interface Judgement {
  readonly of: ConformanceCase;
  /** As it is written, or else with its values read at run time. */
  readonly verdict: "right" | "refused" | "wrong";
  /** Whether it was asked, and right, with its values read at run time. */
  readonly isRightAtRunTime: boolean;
  /** Of a refused one: what the compiler says of it as it is written. */
  readonly refusal: string | undefined;
}

type Answer =
  | { readonly kind: "refused"; readonly message: string }
  | { readonly kind: "failure"; readonly message: string }
  | { readonly kind: "value"; readonly type: string; readonly value: unknown };

export function judgeCase(of: ConformanceCase): Judgement {
  const asWritten = answerTo({ source: of.source, annotations: {} });
  const atRunTime = readAtRunTime(of);
  const later: Answer = atRunTime === undefined ? { kind: "refused", message: "" } : answerTo(atRunTime);
  const isRightAtRunTime = later.kind !== "refused" && isRight(of, later);
  const asked = [asWritten, later].filter(({ kind }) => kind !== "refused");
  const refusal = asWritten.kind === "refused" ? asWritten.message : undefined;
  if (asked.length === 0) return { of, verdict: "refused", isRightAtRunTime, refusal };
  const verdict = asked.every((answer) => isRight(of, answer)) ? "right" : "wrong";
  return { of, verdict, isRightAtRunTime, refusal: undefined };
}

function answerTo({ source, annotations }: AtRunTime): Answer {
  const compiled = compileVariables([{ name: "x", expression: source }]);
  if (!compiled.ok) return { kind: "refused", message: compiled.problems[0]?.message ?? "" };
  const variable = compiled.variables.byName.get("x");
  if (variable === undefined) throw new Error(`${source} compiled to nothing`);
  try {
    return { kind: "value", type: variable.type, value: variable.run(scopeWith(annotations)) };
  } catch (failure) {
    if (!(failure instanceof EvaluationFailure)) throw failure;
    const { message } = failure;
    return { kind: REFUSED_LATER.test(message) ? "refused" : "failure", message };
  }
}

/** What the dialect leaves out, found where a text is read: refused as it is in a literal. */
const REFUSED_LATER = /finer than a millisecond/;

function isRight({ expected }: ConformanceCase, answer: Answer): boolean {
  if (answer.kind !== "value") return expected.kind === "error";
  if (expected.kind === "error") return false;
  if (expected.type !== undefined && typeText(expected.type) !== answer.type) return false;
  return expected.kind === "type" || isSame(expected.value, answer.value);
}

const TYPES: Readonly<Record<string, string>> = {
  INT64: "int",
  DOUBLE: "double",
  STRING: "string",
  BOOL: "bool",
  DURATION: "duration",
  TIMESTAMP: "timestamp",
};

interface SpecifiedType {
  readonly primitive?: string;
  readonly wellKnown?: string;
  readonly listType?: { readonly elemType: SpecifiedValue };
  readonly mapType?: { readonly valueType: SpecifiedValue };
}

/** The dialect's name of a type of the specification; undefined: it has none. */
function typeText(type: SpecifiedValue): string | undefined {
  const { primitive, wellKnown, listType, mapType } = type as SpecifiedType;
  if (listType !== undefined) return `list<${typeText(listType.elemType) ?? ""}>`;
  if (mapType !== undefined) return `map<${typeText(mapType.valueType) ?? ""}>`;
  return TYPES[primitive ?? wellKnown ?? ""];
}

function isSame(expected: SpecifiedValue, value: unknown): boolean {
  const [member, wanted] = Object.entries(expected)[0] ?? [];
  switch (member) {
    case "int64Value":
      return (typeof value === "number" || typeof value === "bigint") && String(value) === String(wanted);
    case "doubleValue":
      return typeof value === "number" && (value === Number(wanted) || (Number.isNaN(value) && wanted === "NaN"));
    case "stringValue":
    case "boolValue":
      return value === wanted;
    case "listValue":
      return Array.isArray(value) && isSameList((wanted as { values?: SpecifiedValue[] }).values ?? [], value);
    case "mapValue":
      return isSameMap((wanted as { entries?: SpecifiedEntry[] }).entries ?? [], value);
    default:
      return false;
  }
}

interface SpecifiedEntry {
  readonly key: { readonly stringValue?: string };
  readonly value: SpecifiedValue;
}

function isSameList(wanted: readonly SpecifiedValue[], values: readonly unknown[]): boolean {
  return wanted.length === values.length && wanted.every((one, index) => isSame(one, values[index]));
}

function isSameMap(wanted: readonly SpecifiedEntry[], value: unknown): boolean {
  const map = new Map(Object.entries(value as Readonly<Record<string, unknown>>));
  return map.size === wanted.length && wanted.every((one) => isSame(one.value, map.get(one.key.stringValue ?? "")));
}

/** A volume of which nothing is measured: the cases know none. */
function scopeWith(annotations: Readonly<Record<string, string>>): Scope {
  const missing = { missing: "nothing is measured" };
  return {
    volume: {
      namespace: "shop",
      name: "orders",
      labels: {},
      annotations,
      storageClassName: "fast",
      backend: "lvm",
      fsType: "btrfs",
      nominalBytes: undefined,
      capacityBytes: undefined,
      usedBytes: undefined,
      availableBytes: undefined,
      usedRatio: undefined,
      inodesTotal: undefined,
      inodesUsed: undefined,
      inodesUsedRatio: undefined,
      ageSeconds: undefined,
    },
    node: { name: "", freeBytes: undefined, ioUtilizationRatio: undefined },
    nowMs: 0,
    usedBytesMax: () => missing,
    growthBytesPerSecond: () => missing,
  };
}
