import { beforeEach, describe, expect, it } from "@jest/globals";
import {
  addClasses,
  addNode,
  agentPod,
  buildClaim,
  buildLogicalVolume,
  buildPod,
  createFleet,
  type Fleet,
  uidOf,
} from "../../../builders/placement.ts";

const NODE = "node-1";
const ROOM = "15Gi";

let fleet: Fleet;
beforeEach(() => {
  fleet = createFleet();
  addClasses(fleet);
  for (const index of [1, 2]) {
    fleet.put("claims", buildClaim(index));
    fleet.put("pods", buildPod(index));
  }
});

/** Whether the node takes pod INDEX and its 10Gi; if so they are held there. */
function fits(index: number, nodeName = NODE): boolean {
  return fleet.placement.filter(buildPod(index), [nodeName], fleet.nowMs).fits.length === 1;
}

function removeNode(nodeName: string): void {
  for (const kind of ["nodeStorages", "csiNodes", "nodes"] as const) fleet.remove(kind, nodeName);
}

function refresh(): void {
  fleet.view.refresh(fleet.nowMs);
}

describe("what is taken of nodes", () => {
  it("leaves nothing behind of 10,000 nodes that come, are taken of, and go", () => {
    for (let index = 0; index < 10_000; index += 1) {
      const name = `spot-${index}`;
      addNode(fleet, name, { free: ROOM });
      expect(fits(1, name)).toBe(true);
      fleet.put("claims", buildClaim(2, { selectedNode: name }));
      removeNode(name);
      refresh();
    }
    expect(fleet.ledger.count()).toEqual({ reservations: 0, holds: 1, nodes: 1 });
    fleet.ledger.release("pod-uid-1");
    fleet.put("claims", buildClaim(2));
    refresh();
    expect(fleet.ledger.count()).toEqual({ reservations: 0, holds: 0, nodes: 0 });
  });

  it("counts nothing on a node that never was, which a claim names, and counts once that node comes", () => {
    fleet.put("claims", buildClaim(1, { selectedNode: "misspelt" }));
    refresh();
    expect(fleet.ledger.count()).toMatchObject({ reservations: 0, nodes: 0 });
    addNode(fleet, "misspelt", { free: ROOM });
    refresh();
    expect(fleet.ledger.count()).toMatchObject({ reservations: 1, nodes: 1 });
  });

  it("counts on a node that comes back while a pod is held for there", () => {
    addNode(fleet, NODE, { free: ROOM });
    expect(fits(1)).toBe(true);
    removeNode(NODE);
    refresh();
    expect(fleet.ledger.count()).toMatchObject({ holds: 1, nodes: 1 });
    addNode(fleet, NODE, { free: ROOM });
    expect(fits(2)).toBe(false);
    fleet.ledger.release("pod-uid-1");
    expect(fits(2)).toBe(true);
    expect(fits(1)).toBe(false);
  });

  it("counts on a node that comes back after all of it was forgotten", () => {
    addNode(fleet, NODE, { free: ROOM });
    expect(fits(1)).toBe(true);
    removeNode(NODE);
    fleet.ledger.release("pod-uid-1");
    refresh();
    expect(fleet.ledger.count().nodes).toBe(0);
    addNode(fleet, NODE, { free: ROOM });
    expect(fits(1)).toBe(true);
    expect(fits(2)).toBe(false);
  });

  it("counts on a node that comes back while a volume is reserved there", () => {
    addNode(fleet, NODE, { free: ROOM });
    fleet.put("logicalVolumes", buildLogicalVolume(1, NODE));
    refresh();
    removeNode(NODE);
    refresh();
    addNode(fleet, NODE, { free: ROOM });
    expect(fits(2)).toBe(false);
    fleet.remove("logicalVolumes", `fs-${uidOf(1)}`);
    expect(fits(2)).toBe(true);
  });
});

describe("a pod that is held for", () => {
  const holds = (): number => fleet.ledger.count().holds;

  beforeEach(() => addNode(fleet, NODE, { free: "50Gi" }));

  it("is let go of when its volume is seen, also where another pod of that volume went before it", () => {
    for (const index of [1, 2]) fleet.placement.filter(buildPod(index, ["claim-1"]), [NODE], fleet.nowMs);
    fleet.ledger.release("pod-uid-1");
    expect(holds()).toBe(1);
    fleet.put("logicalVolumes", buildLogicalVolume(1, NODE));
    refresh();
    expect(holds()).toBe(0);
  });
});

describe("a volume", () => {
  const MINUTE_MS = 60_000;

  beforeEach(() => {
    for (const name of [NODE, "node-2"]) addNode(fleet, name, { free: ROOM });
  });

  it("that a claim promises to another node counts there for ten minutes from then on", () => {
    fleet.put("claims", buildClaim(1, { selectedNode: NODE }));
    refresh();
    fleet.nowMs += 9 * MINUTE_MS;
    fleet.put("claims", buildClaim(1, { selectedNode: "node-2" }));
    refresh();
    fleet.nowMs += 9.5 * MINUTE_MS;
    expect(fits(2, "node-2")).toBe(false);
    fleet.nowMs += MINUTE_MS;
    expect(fits(2, "node-2")).toBe(true);
  });

  describe("that nothing but an annotation of its claim promises to a node", () => {
    const promise = (request: string, index = 1): void =>
      fleet.put("claims", buildClaim(index, { request, selectedNode: NODE }));

    it("counts nothing without a pod that needs it, and counts from when there is one", () => {
      fleet.remove("pods", "shop/pod-1");
      promise("10Gi");
      expect(fits(2)).toBe(true);
      fleet.ledger.release("pod-uid-2");
      fleet.put("pods", { ...buildPod(1), status: { phase: "Succeeded" } });
      expect(fits(2)).toBe(true);
      fleet.ledger.release("pod-uid-2");
      fleet.put("pods", buildPod(1));
      expect(fits(2)).toBe(false);
      fleet.remove("pods", "shop/pod-1");
      expect(fits(2)).toBe(true);
    });

    it("counts nothing where it is more than the node has, and counts once the node has as much", () => {
      promise("500Gi");
      expect(fits(2)).toBe(true);
      fleet.ledger.release("pod-uid-2");
      addNode(fleet, NODE, { free: "505Gi" });
      expect(fits(2)).toBe(false);
      addNode(fleet, NODE, { free: ROOM });
      expect(fits(2)).toBe(true);
    });

    it("counts nothing either where a pod that nobody has scheduled names the node itself", () => {
      promise("500Gi");
      fleet.put("pods", buildPod(1, undefined, NODE));
      expect(fits(2)).toBe(true);
    });

    it("has its ten minutes from when it was first seen, however often its pod is made anew", () => {
      promise("10Gi");
      expect(fits(2)).toBe(false);
      fleet.nowMs += 9 * MINUTE_MS;
      fleet.remove("pods", "shop/pod-1");
      expect(fits(2)).toBe(true);
      fleet.ledger.release("pod-uid-2");
      fleet.put("pods", buildPod(1));
      expect(fits(2)).toBe(false);
      fleet.nowMs += MINUTE_MS;
      expect(fits(2)).toBe(true);
    });
  });

  it("that is asked to go takes nothing, made or not", () => {
    const { spec, ...volume } = buildLogicalVolume(1, NODE);
    fleet.put("logicalVolumes", { ...volume, spec: { ...spec, state: "Removed" } });
    expect(fits(2)).toBe(true);
  });
});

describe("an agent that is gone since a moment that only we saw", () => {
  beforeEach(() => {
    addNode(fleet, NODE, { free: ROOM });
    fleet.put("pods", agentPod(NODE, "True", fleet.nowMs));
    fleet.remove("pods", `tidemark-system/agent-${NODE}`);
    fleet.nowMs += 61_000;
    expect(fits(1)).toBe(false);
  });

  it("is still gone on a node that comes back with what that agent reported", () => {
    fleet.remove("nodes", NODE);
    expect(fits(1)).toBe(false);
    addNode(fleet, NODE, { free: ROOM });
    expect(fits(1)).toBe(false);
  });

  it("is forgotten with its node and what it reported there", () => {
    removeNode(NODE);
    expect(fits(1)).toBe(false);
    addNode(fleet, NODE, { free: ROOM });
    expect(fits(1)).toBe(true);
  });
});
