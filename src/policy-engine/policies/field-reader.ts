// Reads the texts of a policy's fields and collects what is wrong with them, field by field, instead of stopping at the first.
import { parseDuration } from "../../contracts/quantities/duration.ts";
import { parseQuantity } from "../../contracts/quantities/quantity.ts";
import { parsePercent } from "../../contracts/quantities/ratio.ts";
import type { ExpressionProblem } from "../cel/errors.ts";
import type { PolicyProblem } from "./compiled-policy.ts";

export class FieldReader {
  readonly problems: PolicyProblem[];

  /** Begins with what is known to be wrong already. */
  constructor(problems: readonly PolicyProblem[]) {
    this.problems = [...problems];
  }

  refuse(field: string, message: string, hint?: string): void {
    this.problems.push(hint === undefined ? { field, message } : { field, message, hint });
  }

  refuseExpression(field: string, { message, hint, line, column }: ExpressionProblem): void {
    this.problems.push({ field, message, ...(hint === undefined ? {} : { hint }), line, column });
  }

  /** Bytes, more than 0; undefined when absent or refused. */
  size(field: string, text: string | undefined): number | undefined {
    const bytes = this.#read(field, text, parseQuantity);
    if (bytes !== 0) return bytes;
    this.refuse(field, `"${text}" is not a size`, "write a size such as 1Gi, or leave the field out");
    return undefined;
  }

  /** Milliseconds; undefined when absent or refused. */
  duration(field: string, text: string | undefined): number | undefined {
    return this.#read(field, text, parseDuration);
  }

  /** A ratio above 0 and, with `belowWhole`, below 1; undefined when absent or refused. */
  percent(field: string, text: string | undefined, { belowWhole }: { belowWhole: boolean }): number | undefined {
    const ratio = this.#read(field, text, parsePercent);
    if (ratio === undefined || (ratio > 0 && (ratio < 1 || !belowWhole))) return ratio;
    this.refuse(
      field,
      `"${text}" is out of range`,
      belowWhole ? "write more than 0% and less than 100%" : "write more than 0%",
    );
    return undefined;
  }

  #read(field: string, text: string | undefined, parse: (text: string) => number): number | undefined {
    if (text === undefined) return undefined;
    try {
      return parse(text);
    } catch (error) {
      this.refuse(field, (error as Error).message);
      return undefined;
    }
  }
}
