import { describe, expect, it } from "@jest/globals";
import { LOCAL } from "../../../src/csi/driver.ts";
import { Refusal } from "../../../src/csi/refusal.ts";
import type { CSINode } from "../../../src/kube/resources.ts";
import { isAccessibleFrom, leastUsedNode, requestedNode } from "../../../src/operator/csi/placement.ts";

const on = (node: string) => ({ segments: { "topology.tidemark.dev/node": node } });
const elsewhere = { segments: { "topology.kubernetes.io/zone": "a" } };

function csiNode(name: string, driver = "local.tidemark.dev"): CSINode {
  return {
    apiVersion: "storage.k8s.io/v1",
    kind: "CSINode",
    metadata: { name },
    spec: { drivers: [{ name: driver, nodeID: name }] },
  };
}

describe("the node of a new volume", () => {
  it("is the preferred one, which is the scheduler's choice", () => {
    expect(requestedNode({ requisite: [on("a"), on("b")], preferred: [on("b"), on("a")] }, LOCAL)).toBe("b");
  });

  it("is a requisite one where none is preferred", () => {
    expect(requestedNode({ requisite: [on("a")], preferred: [] }, LOCAL)).toBe("a");
  });

  it("is left open by a request without topology", () => {
    expect(requestedNode(undefined, LOCAL)).toBeUndefined();
    expect(requestedNode({ requisite: [], preferred: [] }, LOCAL)).toBeUndefined();
  });

  it("is refused when no topology is one of ours", () => {
    expect(requestedNode({ requisite: [elsewhere], preferred: [elsewhere] }, LOCAL)).toBeInstanceOf(Refusal);
  });

  it("when left open, is the one of our driver with the fewest volumes, then the first by name", () => {
    const nodes = [csiNode("c"), csiNode("b"), csiNode("a", "other.example.com")];
    expect(leastUsedNode(nodes, new Map([["b", 2]]), LOCAL)).toBe("c");
    expect(leastUsedNode(nodes, new Map(), LOCAL)).toBe("b");
  });

  it("is not to be had before a node has our driver", () => {
    expect(leastUsedNode([csiNode("a", "other.example.com")], new Map(), LOCAL)).toMatchObject({ code: "UNAVAILABLE" });
  });

  it("must be among the requisite ones for a volume that exists", () => {
    expect(isAccessibleFrom({ requisite: [on("a"), on("b")], preferred: [] }, "b")).toBe(true);
    expect(isAccessibleFrom({ requisite: [on("a")], preferred: [] }, "b")).toBe(false);
    expect(isAccessibleFrom(undefined, "b")).toBe(true);
  });
});
