import { describe, expect, it } from "@jest/globals";
import { readArgs, WireError } from "../../../../src/extender/report/scheduler-wire.ts";

describe("a question", () => {
  const Pod = {
    metadata: { name: "a", namespace: "shop", uid: "u" },
    spec: { volumes: [{ name: "v", ephemeral: {} }] },
  };

  it("is read by the names of its nodes", () => {
    const read = readArgs(Buffer.from(JSON.stringify({ Pod, Nodes: null, NodeNames: ["x", "y"] })));
    expect(read).toEqual({ pod: { metadata: Pod.metadata, spec: Pod.spec }, nodeNames: ["x", "y"] });
  });

  it.each([
    ["a name that is none", { Pod, NodeNames: ["x", 1] }, "NodeNames.1"],
    ["no nodes", { Pod }, "nodeCacheCapable: true"],
    ["whole nodes", { Pod, Nodes: { items: [{ metadata: { name: "x" } }] } }, "nodeCacheCapable: true"],
    ["no pod", { NodeNames: ["x"] }, "Pod"],
    ["too many names", { Pod, NodeNames: Array.from({ length: 20_001 }, () => "x") }, "20000"],
    [
      "too many volumes",
      { Pod: { ...Pod, spec: { volumes: Array.from({ length: 5001 }, () => 1) } }, NodeNames: [] },
      "volumes",
    ],
  ])("with %s is refused", (_name, question, sentence) => {
    const ask = () => readArgs(Buffer.from(JSON.stringify(question)));
    expect(ask).toThrow(WireError);
    expect(ask).toThrow(sentence);
  });
});
