import { describe, expect, it } from "@jest/globals";
import type { Node } from "../../../../src/contracts/kubernetes/resources.ts";
import { decideClaimDeletion, lossOf, nodeOfLocal } from "../../../../src/operator/node-loss/decide-node-loss.ts";
import { createLossDelay } from "../../../../src/operator/node-loss/node-loss-loop.ts";
import type { Reflector } from "../../../../src/platform/kube/cache/reflector.ts";
import type { ChangeHandlers } from "../../../../src/platform/kube/cache/store.ts";
import type { Clock } from "../../../../src/platform/process/clock.ts";
import { buildClaim } from "../../../builders/claim.ts";
import { buildNode } from "../../../builders/node.ts";
import { buildLayout, NODE } from "../../../builders/volume.ts";

describe("a node", () => {
  it.each([
    ["that is there", buildNode("a"), undefined],
    ["that does not answer", buildNode("a", ["node.kubernetes.io/unreachable"]), undefined],
    ["that somebody marked", buildNode("a", ["node.kubernetes.io/out-of-service"]), "out of service"],
    ["that is not in the cluster", undefined, "gone"],
  ])("%s", (_what, node, loss) => {
    expect(lossOf(node)).toBe(loss);
  });

  it("has the only data of a loop and a lvm volume, not of a span, and not of one that is deleted", () => {
    expect(nodeOfLocal(buildLayout())).toBe(NODE);
    expect(nodeOfLocal(buildLayout({ spec: { backend: "lvm" } }))).toBe(NODE);
    expect(nodeOfLocal(buildLayout({ spec: { backend: "span" } }))).toBeUndefined();
    expect(nodeOfLocal(buildLayout({ spec: { backend: "claim" } }))).toBeUndefined();
    const removed = { name: "m0", state: "Removed" as const, source: {} };
    expect(nodeOfLocal(buildLayout({ spec: { members: [removed] } }))).toBeUndefined();
  });
});

describe("the claim of a volume on a lost node", () => {
  const names = (count: number, prefix = "n") =>
    new Set(Array.from({ length: count }, (_, index) => `${prefix}${index}`));
  const plan = (annotation: string | undefined, known: number, lost: number) =>
    decideClaimDeletion({
      claim: buildClaim({
        name: "data",
        ...(annotation === undefined ? {} : { annotations: { "tidemark.dev/on-node-loss": annotation } }),
      }),
      what: "node n0 is out of service",
      knownNodes: names(known),
      lostNodes: names(lost),
    });

  it.each([
    [undefined, 10, 1, "keep"],
    ["delete", 10, 1, "keep"],
    ["Keep", 10, 1, "keep"],
    ["Delete", 10, 1, "delete"],
    ["Delete", 10, 2, "delete"],
    ["Delete", 10, 3, "hold"],
    ["Delete", 3, 1, "delete"],
    ["Delete", 2, 1, "delete"],
    ["Delete", 2, 2, "hold"],
    ["Delete", 1, 1, "hold"],
    ["Delete", 5000, 1000, "delete"],
    ["Delete", 5000, 1001, "hold"],
  ] as const)("annotated %s, with %i nodes known and %i lost: %s", (annotation, known, lost, expected) => {
    expect(plan(annotation, known, lost).do).toBe(expected);
  });

  it("is told what holds it back, with figures", () => {
    const { message } = plan("Delete", 10, 7);
    expect(message).toContain("7 of 10 nodes look lost, above the limit of 2");
  });
});

describe("a loss", () => {
  const start = (delayMs: number) => {
    let nowMs = 1000;
    let told: ChangeHandlers<Node> = {};
    const clock: Pick<Clock, "monotonicMs"> = { monotonicMs: () => nowMs };
    const nodes: Pick<Reflector<Node>, "subscribe"> = {
      subscribe: (handlers) => {
        told = handlers;
      },
    };
    const delay = createLossDelay(nodes, clock, delayMs);
    return {
      delay,
      pass: (ms: number) => {
        nowMs += ms;
      },
      gone: (name: string) => told.deleted?.(buildNode(name)),
      back: (name: string) => told.added?.(buildNode(name)),
    };
  };

  it("must last for a while, and begins anew when the node was back", () => {
    const { delay, pass } = start(30_000);
    expect(delay.leftMs("a", true)).toBe(30_000);
    pass(20_000);
    expect(delay.leftMs("a", true)).toBe(10_000);
    pass(15_000);
    expect(delay.leftMs("a", true)).toBe(0);
    expect(delay.leftMs("b", true)).toBe(30_000);
    delay.leftMs("a", false);
    expect(delay.leftMs("a", true)).toBe(30_000);
  });

  it("counts for a while with those of nodes that have left shortly before, until they are back", async () => {
    const { delay, pass, gone, back } = start(0);
    await gone("a");
    await gone("b");
    pass(9 * 60_000);
    await gone("c");
    await back("b");
    expect(delay.recentlyGone()).toEqual(["a", "c"]);
    pass(2 * 60_000);
    expect(delay.recentlyGone()).toEqual(["c"]);
  });
});
