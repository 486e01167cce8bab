import { describe, expect, it } from "@jest/globals";
import { LOCAL, SPAN } from "../../../../../src/contracts/csi/driver.ts";
import { Refusal } from "../../../../../src/contracts/csi/refusal.ts";
import type { CSINode } from "../../../../../src/contracts/kubernetes/resources.ts";
import {
  isAccessibleFrom,
  leastUsedNode,
  nodesInPlace,
  requestedNode,
  requestedPlaces,
} from "../../../../../src/operator/csi/create/placement.ts";

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
    expect(() => requestedNode({ requisite: [elsewhere], preferred: [elsewhere] }, LOCAL)).toThrow(Refusal);
  });

  it("when left open, is the one of our driver with the fewest volumes, then the first by name", () => {
    const nodes = [csiNode("c"), csiNode("b"), csiNode("a", "other.example.com")];
    expect(leastUsedNode(nodes, new Map([["b", 2]]), LOCAL)).toBe("c");
    expect(leastUsedNode(nodes, new Map(), LOCAL)).toBe("b");
  });

  it("is not to be had before a node has our driver", () => {
    expect(() => leastUsedNode([csiNode("a", "other.example.com")], new Map(), LOCAL)).toThrow(
      expect.objectContaining({ code: "UNAVAILABLE" }),
    );
  });

  it("must be among the requisite ones for a volume that exists", () => {
    expect(isAccessibleFrom({ requisite: [on("a"), on("b")], preferred: [] }, "b")).toBe(true);
    expect(isAccessibleFrom({ requisite: [on("a")], preferred: [] }, "b")).toBe(false);
    expect(isAccessibleFrom(undefined, "b")).toBe(true);
  });
});

describe("the node of a span whose class binds at once in some zones", () => {
  const zone = (name: string) => ({ segments: { "topology.kubernetes.io/zone": name } });
  const nodes = [csiNode("a1"), csiNode("a2"), csiNode("b1")];
  const labelsOf = (name: string) => ({ "topology.kubernetes.io/zone": name.slice(0, 1) });
  const names = (found: ReturnType<typeof nodesInPlace>) => found.map(({ metadata }) => metadata.name);

  it("is left open within them, where the request names no node", () => {
    const requirement = { requisite: [zone("a")], preferred: [zone("a")] };
    expect(requestedNode(requirement, SPAN)).toBeUndefined();
    expect(requestedPlaces(requirement)).toEqual([zone("a")]);
    const chosen = { segments: { ...on("a1").segments, ...zone("a").segments } };
    expect(requestedNode({ requisite: [chosen], preferred: [chosen] }, SPAN)).toBe("a1");
    expect(requestedPlaces({ requisite: [chosen], preferred: [chosen] })).toEqual([]);
  });

  it("is one of the first place that has any", () => {
    const requirement = { requisite: [zone("a"), zone("b"), zone("c")], preferred: [zone("c"), zone("b"), zone("a")] };
    expect(names(nodesInPlace(nodes, labelsOf, requirement))).toEqual(["b1"]);
    expect(names(nodesInPlace(nodes, labelsOf, { requisite: [zone("a")], preferred: [] }))).toEqual(["a1", "a2"]);
    expect(names(nodesInPlace(nodes, labelsOf, undefined))).toEqual(["a1", "a2", "b1"]);
  });

  it("is not to be had where no node is in one of them", () => {
    expect(() => nodesInPlace(nodes, labelsOf, { requisite: [zone("c")], preferred: [] })).toThrow(
      expect.objectContaining({ code: "RESOURCE_EXHAUSTED" }),
    );
  });
});
