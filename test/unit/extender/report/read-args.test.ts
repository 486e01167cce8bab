import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { elementsOf, membersOf, PieceError } from "../../../../src/extender/report/json-pieces.ts";
import { readArgs, WireError } from "../../../../src/extender/report/read-args.ts";
import { property } from "../../../harness/property.ts";

function parse(piece: Buffer): unknown {
  return JSON.parse(piece.toString());
}

describe("pieces of JSON", () => {
  const spaced = (value: unknown, indent: number): Buffer => Buffer.from(` ${JSON.stringify(value, null, indent)}\n`);

  property(
    "of an object are its members, whatever is in them",
    { runs: 100, reaches: { members: 0.5 } },
    [fc.dictionary(fc.string(), fc.jsonValue()), fc.nat(3)],
    (reach, object, indent) => {
      const text = spaced(object, indent);
      const found = [...membersOf(text)].map(([name, piece]): [string, unknown] => [name, parse(piece)]);
      if (found.length > 0) reach("members");
      expect(new Map(found)).toEqual(new Map(Object.entries(parse(text) as object)));
    },
  );

  property(
    "of an array are its elements",
    { runs: 100, reaches: { elements: 0.5 } },
    [fc.array(fc.jsonValue()), fc.nat(3)],
    (reach, array, indent) => {
      const text = spaced(array, indent);
      const found = elementsOf(text, 1000).map(parse);
      if (found.length > 0) reach("elements");
      expect(found).toEqual(parse(text));
    },
  );

  it("of two members of one name are the last one's, as JSON.parse takes it", () => {
    expect(membersOf(Buffer.from('{"a":1,"a":2}')).get("a")?.toString()).toBe("2");
  });

  const broken = [
    "",
    " ",
    "{",
    '{"a"',
    '{"a":',
    '{"a":1',
    '{"a":1,',
    '{"a":1,}',
    '{"a":"',
    '{"a":[1}',
    "{} x",
    "[]",
    "{a:1}",
  ];
  it.each(broken)("are refused where there are none: %p", (text) => {
    expect(() => membersOf(Buffer.from(text))).toThrow(PieceError);
  });

  it("are refused where there are too many", () => {
    expect(() => elementsOf(Buffer.from("[1,2,3]"), 2)).toThrow("more than 2 elements");
  });
});

describe("a question", () => {
  const Pod = {
    metadata: { name: "a", namespace: "shop", uid: "u" },
    spec: { volumes: [{ name: "v", ephemeral: {} }] },
  };
  const items = ["x", "y"].map((name) => ({ metadata: { name, labels: { 'tricky \\"]}': "[{" } } }));
  /** Unread, so that the body is over what is parsed at once. */
  const padding = "x".repeat(1024 * 1024);

  it.each([
    ["by names", { Pod, Nodes: null, NodeNames: ["x", "y"] }],
    ["with whole nodes", { Pod, Nodes: { metadata: {}, items }, NodeNames: null }],
  ])("%s is read the same whether it is small or large", (_name, question) => {
    const small = readArgs(Buffer.from(JSON.stringify(question)));
    const large = readArgs(Buffer.from(JSON.stringify({ padding, ...question })));
    expect(large).toEqual(small);
    expect(small).toMatchObject({ nodeNames: ["x", "y"], pod: { metadata: Pod.metadata, spec: Pod.spec } });
    if (question.Nodes !== null)
      expect([...(large.nodes ?? [])].map(([name, piece]): [string, unknown] => [name, parse(piece)])).toEqual(
        items.map((item) => [item.metadata.name, item]),
      );
  });

  it.each([
    ["a name that is none", { Pod, NodeNames: ["x", 1] }, "NodeNames.1"],
    ["a node without a name", { Pod, Nodes: { items: [{}] } }, "Nodes.items.0.metadata"],
    ["no nodes", { Pod }, "it names no nodes"],
    ["no pod", { NodeNames: ["x"] }, "Pod"],
    ["too many names", { Pod, NodeNames: Array.from({ length: 20_001 }, () => "x") }, "20000"],
    [
      "too many volumes",
      { Pod: { ...Pod, spec: { volumes: Array.from({ length: 5001 }, () => 1) } }, NodeNames: [] },
      "volumes",
    ],
  ])("with %s is refused, small or large", (_name, question, sentence) => {
    for (const asked of [question, { padding, ...question }]) {
      expect(() => readArgs(Buffer.from(JSON.stringify(asked)))).toThrow(WireError);
      expect(() => readArgs(Buffer.from(JSON.stringify(asked)))).toThrow(sentence);
    }
  });
});
