import { describe, expect, it } from "@jest/globals";
import type { Schema } from "../../../../demo/control-plane/schema/schema.ts";
import { checkRules, compileRules } from "../../../../demo/control-plane/schema/validation-rules.ts";

/** What is wrong with a text by one rule. */
function checked(rule: string, text: string): string[] {
  const schema: Schema = { type: "string", "x-kubernetes-validations": [{ rule, message: "broken" }] };
  const { rules, errors } = compileRules(schema, "schema");
  return [...errors, ...checkRules(rules, schema, text, undefined, "text")].map(({ message }) => message);
}

describe("a rule about quantities", () => {
  it.each([
    ["1Gi", "1024Mi", 0],
    ["1G", "1Gi", -1],
    ["1.5Ki", "1536", 0],
    ["9007199254740993", "9007199254740992", 1],
    ["1e3", "1k", 0],
    ["1E", "1e18", 0],
    ["100m", "0.1", 0],
    ["1n", "0", 1],
    ["0.1n", "1n", 0],
    ["-1", "0", -1],
    ["+1", "1", 0],
    [".5", "0.50", 0],
    ["1.", "1", 0],
    ["20E", "9223372036854775807", 0],
  ])("orders %s and %s", (one, other, order) => {
    expect(checked(`quantity(self).compareTo(quantity('${other}')) == ${order}`, one)).toEqual([]);
    expect(checked(`quantity(self).isLessThan(quantity('${other}')) == ${order < 0}`, one)).toEqual([]);
    expect(checked(`quantity(self).isGreaterThan(quantity('${other}')) == ${order > 0}`, one)).toEqual([]);
  });

  it.each(["", "Gi", "1gi", "1 Gi", "1Gi1", "1e", "0x1", "1,5", "."])("takes %j for none", (text) => {
    expect(checked("!isQuantity(self)", text)).toEqual([]);
    expect(checked("quantity(self).isLessThan(quantity('1'))", text)[0]).toMatch(/rule evaluation error: quantity: /);
  });

  it("that uses a function of the library that there is not here is refused, never skipped", () => {
    expect(checked("quantity(self).isInteger()", "1")[0]).toMatch(/compilation failed/);
  });
});
