import { describe, expect, it } from "@jest/globals";
import { jsonPatch } from "../../../../demo/control-plane/apply/json-patch.ts";
import { ApiError } from "../../../../demo/control-plane/http/api-error.ts";

const patched = (...operations: object[]): unknown => jsonPatch({ metadata: { name: "a" }, list: [1, 2] }, operations);

describe("a JSON patch that names what every object has", () => {
  it.each([
    { op: "add", path: "/__proto__/polluted", value: "yes" },
    { op: "add", path: "/metadata/__proto__/polluted", value: "yes" },
    { op: "add", path: "/metadata/__proto__", value: { polluted: "yes" } },
    { op: "add", path: "/metadata/constructor/prototype/polluted", value: "yes" },
    { op: "add", path: "/list/0/constructor/polluted", value: "yes" },
    { op: "copy", from: "/__proto__", path: "/metadata/copied" },
    { op: "copy", from: "/toString", path: "/metadata/copied" },
    { op: "remove", path: "/__proto__/toString" },
    { op: "test", path: "/toString", value: {} },
  ])("is refused, and no object has anything more: %j", (operation) => {
    expect(() => patched(operation)).toThrow(ApiError);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    expect(typeof {}.toString).toBe("function");
  });

  it("may call a field of its own by any other name", () => {
    expect(patched({ op: "add", path: "/metadata/constructor", value: "b" })).toEqual({
      metadata: { name: "a", constructor: "b" },
      list: [1, 2],
    });
  });
});
