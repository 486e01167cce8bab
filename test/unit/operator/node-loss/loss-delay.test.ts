import { expect, it } from "@jest/globals";
import type { Node } from "../../../../src/contracts/kubernetes/resources.ts";
import { createLossDelay } from "../../../../src/operator/node-loss/node-loss-loop.ts";
import { buildNode } from "../../../builders/node.ts";

const SETTLE_MS = 60_000;
const node = (isOut: boolean): Node => buildNode("n1", isOut ? ["node.kubernetes.io/out-of-service"] : []);

function settlingUnderTest() {
  let nowMs = 0;
  let seen: { added?: (node: Node) => unknown; updated?: (node: Node, before: Node) => unknown } = {};
  const nodes = {
    subscribe: (handlers: typeof seen) => {
      seen = handlers;
    },
  };
  const settling = createLossDelay(nodes, { monotonicMs: () => nowMs }, SETTLE_MS);
  return { settling, pass: (ms: number) => (nowMs += ms), see: (to: Node, from: Node) => seen.updated?.(to, from) };
}

it("a node's loss settles for a while, which begins when somebody asks first", () => {
  const { settling, pass } = settlingUnderTest();
  expect(settling.leftMs("n1", true)).toBe(SETTLE_MS);
  pass(SETTLE_MS - 1);
  expect(settling.leftMs("n1", true)).toBe(1);
});

it("a node that was well in between settles anew, though nobody asked while it was", () => {
  const { settling, pass, see } = settlingUnderTest();
  settling.leftMs("n1", true);
  pass(SETTLE_MS * 10);
  see(node(false), node(true));
  see(node(true), node(false));
  expect(settling.leftMs("n1", true)).toBe(SETTLE_MS);
});
