// The most that somebody who may write policies in a namespace can ask of those who read them, one policy at a time.

import type { VolumePolicy, VolumePolicySpec } from "../../src/contracts/kinds/volume-policy.ts";
import { API_VERSION } from "../../src/contracts/names.ts";

/** Of 32,768 characters in 32 variables and 32 rules of 3 expressions each. */
const EXPRESSION_CHARS = 256;
const EXPRESSIONS = 32;
/** Of 10,000 ranges of characters, at 750 for each class. */
const CLASSES = 13;
/** Over 10,000, by a pattern that is found when nearly all the rest is compiled. */
const CLASSES_TOO_MANY = 14;
const ANNOTATION_CHARS = 250_000;

/** "at": as large as a policy may be and still decide. "over": refused, by what is found last. */
export type OfBudget = "at" | "over";

export function worstPolicy(namespace: string, index: number, ofBudget: OfBudget): VolumePolicy {
  return {
    apiVersion: API_VERSION,
    kind: "VolumePolicy",
    metadata: {
      namespace,
      name: `worst-${index}`,
      annotations: { "example.com/ballast": "x".repeat(ANNOTATION_CHARS) },
    },
    spec: worstSpec(index, ofBudget),
  };
}

function worstSpec(index: number, ofBudget: OfBudget): VolumePolicySpec {
  const classes = ofBudget === "at" ? CLASSES : CLASSES_TOO_MANY;
  const windows = Array.from({ length: 16 }, (_, minute) => ({
    cron: `${minute} 2 29 2 *`,
    duration: "1h",
    timeZone: "Europe/Berlin",
  }));
  return {
    limits: { max: "1Ti" },
    // Of no claim: the last of many terms says so.
    selector: {
      matchExpressions: Array.from({ length: 32 }, (_, i) => ({
        key: `${"k".repeat(250)}/${"k".repeat(50)}${i}`,
        operator: i < 31 ? "NotIn" : "Exists",
        ...(i < 31 ? { values: Array.from({ length: 8 }, (_value, j) => `${"v".repeat(58)}${j}`) } : {}),
      })),
    },
    storageClassNames: ["tidemark-loop", ...Array.from({ length: 63 }, (_, i) => `${"c".repeat(250)}${i}`)],
    behavior: { extend: { windows }, shrink: { windows } },
    variables: Array.from({ length: EXPRESSIONS }, (_, i) => ({
      name: `${"v".repeat(60)}${i}`,
      expression: filled("[1", ",1", i % 2 === 0 ? "].size()" : "][0]"),
    })),
    rules: Array.from({ length: EXPRESSIONS }, (_, i) => ({
      name: `rule-${i}`,
      action: "Extend" as const,
      when:
        i < classes
          ? filled(
              `volume.name.matches(r'\\pL${index}-${i}') || volume.usedRatio > 0.1`,
              " || volume.usedRatio > 0.1",
              "",
            )
          : filled("volume.usedRatio > 0.1", "||(now>now)", ""),
      toExpression: filled("1", "+1", ""),
      messageExpression: filled("'a'", "+'a'", ""),
    })),
  };
}

/** As often as there is room for. */
function filled(start: string, repeated: string, end: string): string {
  const room = EXPRESSION_CHARS - start.length - end.length;
  return start + repeated.repeat(Math.min(62, Math.floor(room / repeated.length))) + end;
}
