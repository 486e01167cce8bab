import { describe, expect, it } from "@jest/globals";
import { firstMatch, JsonPathError, parseJsonPath } from "../../../../demo/control-plane/apply/json-path.ts";

const object = {
  metadata: { annotations: { "example.com/a": "dotted" } },
  spec: {
    list: [
      { name: "a", n: 1 },
      { name: "b", n: 2 },
    ],
  },
  status: {
    conditions: [
      { type: "Ready", status: "True" },
      { type: "Stalled", status: "False" },
    ],
  },
};

describe("a printer column's path", () => {
  it.each<[string, unknown]>([
    [".spec.list[0].name", "a"],
    [".spec.list[-1].name", "b"],
    [".spec.list[*].n", 1],
    [".spec.list[?(@.n==2)].name", "b"],
    ['.status.conditions[?(@.type=="Stalled")].status', "False"],
    [".status.conditions[?(@.type!='Ready')].type", "Stalled"],
    [".metadata.annotations.example\\.com/a", "dotted"],
    [".metadata.annotations['example.com/a']", "dotted"],
    ["{.spec.list[1].n}", 2],
    [".spec.none.at.all", undefined],
  ])("%s gives %j", (path, expected) => {
    expect(firstMatch(parseJsonPath(path), object)).toEqual(expected);
  });

  it.each(["..name", ".spec.list[0:1]", ".spec.list[?(@.n>1)].name", ".a[0,1]", ".a["])("%s is refused", (path) => {
    expect(() => parseJsonPath(path)).toThrow(JsonPathError);
  });
});
