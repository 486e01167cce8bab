import { beforeEach, describe, expect, it } from "@jest/globals";
import type { Pod } from "../../../src/contracts/kubernetes/resources.ts";
import { LOCAL_DRIVER, SPAN_DRIVER } from "../../../src/contracts/names.ts";
import { HOLDS_LIMIT } from "../../../src/extender/apply/ledger.ts";
import { fitFailureSentence } from "../../../src/extender/decide/decide-fit.ts";
import { filterResult } from "../../../src/extender/report/scheduler-wire.ts";
import {
  addClasses,
  addNode,
  addSpan,
  agentPod,
  buildAttachment,
  buildClaim,
  buildClass,
  buildLocalLayout,
  buildLogicalVolume,
  buildPod,
  buildSpanLayout,
  buildVolume,
  createFleet,
  type Fleet,
  HOLD_LIMIT_MS,
  MEMBER_DRIVER,
  NOW_MS,
  type NodeFields,
  uidOf,
} from "../../builders/placement.ts";

let fleet: Fleet;
beforeEach(() => {
  fleet = createFleet();
  addClasses(fleet);
});

const NODE = "node-1";

function filter(pod: Pod, names: readonly string[] = [NODE]) {
  return fleet.placement.filter(pod, names, fleet.nowMs);
}

/** "fits", or the sentence that the user reads. */
function verdict(pod: Pod, name = NODE): string {
  const answer = filter(pod, [name]);
  const result = filterResult({ pod, nodeNames: [name] }, answer);
  if (result.Error !== "") return result.Error;
  return answer.fits.includes(name)
    ? "fits"
    : (result.FailedNodes[name] ?? result.FailedAndUnresolvableNodes[name] ?? "neither");
}

describe("a node is refused with a sentence", () => {
  const cases: readonly (readonly [string, NodeFields, string])[] = [
    ["has room", {}, "fits"],
    ["has exactly the room", { free: "10Gi" }, "fits"],
    ["has too little", { free: "9Gi" }, "device class ssd: 10Gi needed, at most 9Gi free here"],
    ["has nothing", { free: "0" }, "device class ssd: 10Gi needed, nothing free here"],
    ["reports no number", { free: "NaN" }, "NodeStorage reports an invalid free size for device class ssd"],
    ["reports a negative size", { free: "-5Gi" }, "NodeStorage reports an invalid free size for device class ssd"],
    ["is cordoned", { cordoned: true }, "the node is cordoned"],
    [
      "has no driver",
      { drivers: [] },
      "CSI driver local.tidemark.dev is not registered on the node; check that the Tidemark agent runs there",
    ],
    ["has been added a moment ago", { storage: null }, "the node has not reported its capacity yet (NodeStorage)"],
    ["has no device class", { storage: { deviceClasses: [] } }, "the node has no default device class"],
    [
      "has a class with a problem",
      {
        storage: { deviceClasses: [{ name: "ssd", backend: "lvm", free: "1Ti", default: true, problem: "no group" }] },
      },
      "cannot create volumes in device class ssd: no group",
    ],
  ];
  it.each(cases)("where it %s", (_name, fields, expected) => {
    addNode(fleet, NODE, fields);
    fleet.put("claims", buildClaim(1));
    expect(verdict(buildPod(1))).toBe(expected);
  });

  it("where it is not known: just added, or gone", () => {
    fleet.put("claims", buildClaim(1));
    addNode(fleet, NODE);
    expect(verdict(buildPod(1), "gone")).toContain("the node is unknown to Tidemark");
    fleet.remove("nodes", NODE);
    expect(verdict(buildPod(1))).toContain("the node is unknown to Tidemark");
  });

  it("where its agent has not been heard for more than 60 s, and not before", () => {
    addNode(fleet, NODE);
    fleet.put("claims", buildClaim(1));
    fleet.put("pods", agentPod(NODE, "False", NOW_MS - 59_000));
    expect(verdict(buildPod(1))).toBe("fits");
    fleet.nowMs += 2000;
    expect(verdict(buildPod(1))).toBe(
      "the Tidemark agent of the node has not been ready for more than 1m; its capacity report is stale",
    );
    fleet.put("pods", agentPod(NODE, "True", fleet.nowMs));
    expect(verdict(buildPod(1))).toBe("fits");
    fleet.remove("pods", "tidemark-system/agent-node-1");
    expect(verdict(buildPod(1))).toBe("fits");
    fleet.nowMs += 61_000;
    expect(verdict(buildPod(1))).toContain("not been ready for more than 1m");
  });

  it("that nodes which lack the same have in common, with the most that any has", () => {
    fleet.put("claims", buildClaim(1));
    addNode(fleet, "a", { free: "3Gi" });
    addNode(fleet, "b", { free: "8Gi" });
    const pod = buildPod(1);
    const answer = filter(pod, ["a", "b"]);
    const { NodeNames, FailedAndUnresolvableNodes } = filterResult({ pod, nodeNames: ["a", "b"] }, answer);
    const sentence = "device class ssd: 10Gi needed, at most 8Gi free on each of these nodes";
    expect(NodeNames).toEqual([]);
    expect(FailedAndUnresolvableNodes).toEqual({ a: sentence, b: sentence });
  });

  it("never without one, whatever the reason", () => {
    for (const reason of ["BeingPlaced", "NoSlots", "NoSpace"] as const)
      expect(fitFailureSentence({ reason, subject: "x", needed: 2, has: Number.NEGATIVE_INFINITY }, -1, 1)).toMatch(
        /^x: /,
      );
  });
});

describe("what a pod needs", () => {
  beforeEach(() => addNode(fleet, NODE, { free: "15Gi" }));

  it("is nothing where it has no volumes of ours: every node is answered as it came", () => {
    fleet.put("claims", buildClaim(1, { storageClassName: "other" }));
    expect(filter(buildPod(1), ["x", "y"]).fits).toEqual(["x", "y"]);
    expect(filter(buildPod(2, []), ["x"]).fits).toEqual(["x"]);
  });

  describe("cannot be told while an object is not seen: an error, so that the scheduler asks again, and no node refused for it", () => {
    const AGAIN = "does not exist, or is not seen by Tidemark yet; it is tried again";
    const span = () => fleet.put("storageClasses", buildClass("late", { backend: "span" }, SPAN_DRIVER));
    const unseen: readonly (readonly [string, () => void, string])[] = [
      ["its claim", () => undefined, `claim claim-1 of the pod ${AGAIN}`],
      [
        "the claim's class",
        () => fleet.put("claims", buildClaim(1, { storageClassName: "late" })),
        `StorageClass late of claim claim-1 ${AGAIN}`,
      ],
      [
        "the class of the members",
        () => [span(), fleet.put("claims", buildClaim(1, { storageClassName: "late" }))],
        `StorageClass "", of which late of claim claim-1 makes members, ${AGAIN}`,
      ],
      [
        "the claim's volume",
        () => fleet.put("claims", buildClaim(1, { volumeName: "pv-1" })),
        `PersistentVolume pv-1 of claim claim-1 ${AGAIN}`,
      ],
    ];
    it.each(unseen)("%s", (_name, prepare, sentence) => {
      prepare();
      const answer = filter(buildPod(1));
      expect(filterResult({ pod: buildPod(1), nodeNames: [NODE] }, answer)).toEqual({
        NodeNames: [],
        FailedNodes: {},
        FailedAndUnresolvableNodes: {},
        Error: sentence,
      });
      expect(fleet.placement.explain(buildPod(1), fleet.nowMs)).toMatchObject({ sentence });
    });
  });

  it("is counted from its claims: an annotation that somebody forged changes nothing", () => {
    fleet.put("claims", buildClaim(1, { request: "20Gi" }));
    const pod = buildPod(1);
    pod.metadata.annotations = { "capacity.tidemark.dev/ssd": "1", "tidemark.dev/capacity": "1" };
    expect(verdict(pod)).toBe("device class ssd: 20Gi needed, at most 15Gi free here");
  });

  it("is the sum over its claims, one naming the class and one meaning it as the default", () => {
    fleet.put("claims", buildClaim(1));
    fleet.put("claims", buildClaim(2, { storageClassName: "lvm-ssd" }));
    expect(verdict(buildPod(1, ["claim-1", "claim-2"]))).toBe("device class ssd: 20Gi needed, at most 15Gi free here");
  });

  it("is the class' initialSize where it has one", () => {
    fleet.put("claims", buildClaim(1, { storageClassName: "lvm-small", request: "100Gi" }));
    expect(verdict(buildPod(1))).toBe("fits");
  });

  it("counts an ephemeral claim only where it is the pod's own", () => {
    const pod = buildPod(7, []);
    pod.spec = { containers: [], volumes: [{ name: "scratch", ephemeral: {} }] };
    const claim = buildClaim(7, { request: "20Gi", ownedBy: "pod-uid-7" });
    claim.metadata.name = "pod-7-scratch";
    fleet.put("claims", claim);
    expect(verdict(pod)).toBe("device class ssd: 20Gi needed, at most 15Gi free here");
    const foreign = buildClaim(8);
    foreign.metadata.name = "pod-7-scratch";
    fleet.put("claims", foreign);
    expect(verdict(pod)).toContain("was not made for the pod's volume of that name");
  });

  it("is refused with the claim's name where its size or class cannot be read", () => {
    fleet.put("claims", buildClaim(1, { request: "NaN" }));
    expect(verdict(buildPod(1))).toBe('claim claim-1: its size "NaN" is not a quantity such as 10Gi');
  });
});

describe("attach slots", () => {
  it("are needed for every member but a spare, and for none that is attached already", () => {
    addNode(fleet, NODE, { slots: 3 });
    addSpan(fleet, 1, 4);
    expect(verdict(buildPod(1))).toBe(`${MEMBER_DRIVER}: 4 volumes to attach, at most 3 attach slots left here`);
    fleet.put("attachments", buildAttachment("pv-1-m0", NODE));
    expect(verdict(buildPod(1))).toBe(`${MEMBER_DRIVER}: 3 volumes to attach, at most 2 attach slots left here`);
    addNode(fleet, NODE, { slots: 4 });
    expect(verdict(buildPod(1))).toBe("fits");
  });

  it("are taken by a pod that is bound and whose members are not attached yet", () => {
    addNode(fleet, NODE, { slots: 5 });
    addSpan(fleet, 1, 4);
    addSpan(fleet, 2, 2);
    fleet.put("pods", buildPod(1, ["claim-1"], NODE));
    expect(verdict(buildPod(2))).toBe(`${MEMBER_DRIVER}: 2 volumes to attach, at most 1 attach slots left here`);
    for (const member of [0, 1, 2, 3]) fleet.put("attachments", buildAttachment(`pv-1-m${member}`, NODE));
    expect(verdict(buildPod(2))).toContain("at most 1 attach slots left");
    fleet.remove("pods", "shop/pod-1");
    for (const member of [0, 1, 2, 3]) fleet.remove("attachments", `pv-1-m${member}-at-${NODE}`);
    expect(verdict(buildPod(2))).toBe("fits");
  });

  it("are taken by other volumes of the same driver from when their pods are bound, before they are attached", () => {
    addNode(fleet, NODE, { slots: 3 });
    addSpan(fleet, 1, 2);
    for (const index of [2, 3]) {
      const volume = buildVolume(`pv-${index}`, MEMBER_DRIVER, `disk-${index}`);
      volume.spec.claimRef = { uid: uidOf(index) };
      fleet.put("claims", buildClaim(index, { storageClassName: "disks", volumeName: `pv-${index}` }));
      fleet.put("volumes", volume);
      fleet.put("pods", buildPod(index));
    }
    expect(verdict(buildPod(1))).toBe("fits");
    fleet.ledger.release("pod-uid-1");
    for (const index of [2, 3]) fleet.put("pods", buildPod(index, undefined, NODE));
    const few = `${MEMBER_DRIVER}: 2 volumes to attach, at most 1 attach slots left here`;
    expect(verdict(buildPod(1))).toBe(few);
    expect(fleet.ledger.count().reservations).toBe(2);
    for (const index of [2, 3]) fleet.put("attachments", buildAttachment(`pv-${index}`, NODE));
    expect(verdict(buildPod(1))).toBe(few);
    expect(fleet.ledger.count().reservations).toBe(0);
    fleet.remove("attachments", `pv-2-at-${NODE}`);
    fleet.put("pods", { ...buildPod(2, undefined, NODE), status: { phase: "Succeeded" } });
    expect(verdict(buildPod(1))).toBe("fits");
  });

  it("are held until the pod is bound, whatever its layout says meanwhile", () => {
    addNode(fleet, NODE, { slots: 5 });
    addSpan(fleet, 1, 4);
    addSpan(fleet, 2, 2);
    const few = `${MEMBER_DRIVER}: 2 volumes to attach, at most 1 attach slots left here`;
    expect(verdict(buildPod(1))).toBe("fits");
    const layout = buildSpanLayout(1, 4);
    fleet.put("layouts", { ...layout, spec: { ...layout.spec, nodeName: "where-it-was" } });
    expect(verdict(buildPod(2))).toBe(few);
    fleet.put("pods", buildPod(1, ["claim-1"], NODE));
    expect(verdict(buildPod(2))).toBe(few);
    expect(fleet.ledger.count()).toMatchObject({ reservations: 1, holds: 0 });
  });

  it("are held, too, while another volume of the pod is placed first", () => {
    addNode(fleet, NODE, { slots: 5 });
    addSpan(fleet, 1, 4);
    addSpan(fleet, 2, 2);
    fleet.put("claims", buildClaim(3));
    expect(verdict(buildPod(1, ["claim-1", "claim-3"]))).toBe("fits");
    fleet.put("claims", buildClaim(3, { selectedNode: NODE }));
    expect(verdict(buildPod(2))).toBe(`${MEMBER_DRIVER}: 2 volumes to attach, at most 1 attach slots left here`);
  });

  it("matter where the members can be used: nodes out of their reach are refused", () => {
    addNode(fleet, "a", { labels: { zone: "a" } });
    addNode(fleet, "b", { labels: { zone: "b" } });
    addSpan(fleet, 1, 2, "b");
    expect(verdict(buildPod(1), "a")).toBe("volume pv-1-m0 cannot be used on the node");
    expect(verdict(buildPod(1), "b")).toBe("fits");
  });
});

describe("the ledger", () => {
  beforeEach(() => {
    addNode(fleet, NODE, { free: "15Gi" });
    for (const index of [1, 2]) {
      fleet.put("claims", buildClaim(index));
      fleet.put("pods", buildPod(index));
    }
  });
  const HELD = "device class ssd: 10Gi needed, at most 5Gi free here while other pods are being placed; retrying";
  const TAKEN = "device class ssd: 10Gi needed, at most 5Gi free here";

  it("holds what was offered until the objects show where the pod went, and reserves from then on", () => {
    expect(verdict(buildPod(1))).toBe("fits");
    expect(verdict(buildPod(2))).toBe(HELD);
    fleet.put("claims", buildClaim(1, { selectedNode: NODE }));
    expect(verdict(buildPod(2))).toBe(TAKEN);
    fleet.put("logicalVolumes", buildLogicalVolume(1, NODE));
    expect(verdict(buildPod(2))).toBe(TAKEN);
  });

  it("lets the same pod ask again", () => {
    expect(verdict(buildPod(1))).toBe("fits");
    expect(verdict(buildPod(1))).toBe("fits");
    fleet.put("claims", buildClaim(1, { selectedNode: NODE }));
    expect(verdict(buildPod(1))).toBe("fits");
  });

  it("ends a hold when the pod is gone, or after its limit", () => {
    fleet.put("pods", buildPod(1));
    expect(verdict(buildPod(1))).toBe("fits");
    fleet.remove("pods", "shop/pod-1");
    expect(verdict(buildPod(2))).toBe("fits");
    expect(verdict(buildPod(1))).toBe(HELD);
    fleet.put("pods", { ...buildPod(2), status: { phase: "Failed" } });
    expect(verdict(buildPod(1))).toBe("fits");
    expect(verdict(buildPod(2))).toBe(HELD);
    fleet.remove("pods", "shop/pod-2");
    fleet.put("pods", { ...buildPod(1), status: { phase: "Failed" } });
    expect(verdict(buildPod(2))).toBe("fits");
    expect(verdict(buildPod(1))).toBe(HELD);
    fleet.nowMs += HOLD_LIMIT_MS - 1;
    expect(verdict(buildPod(1))).toBe(HELD);
    fleet.nowMs += 1;
    expect(verdict(buildPod(1))).toBe("fits");
  });

  it("goes on reserving a volume that is made until a report of the node can show it", () => {
    fleet.put("claims", buildClaim(1, { selectedNode: NODE }));
    expect(verdict(buildPod(2))).toBe(TAKEN);
    fleet.put("logicalVolumes", buildLogicalVolume(1, NODE, { isMade: true }));
    expect(verdict(buildPod(2))).toBe(TAKEN);
    fleet.nowMs += 1000;
    addNode(fleet, NODE, { free: "5Gi" });
    expect(verdict(buildPod(2))).toBe(TAKEN);
    expect(fleet.ledger.count().reservations).toBe(0);
  });

  it("reserves nothing for a volume that its node has given up, and again once it is asked anew", () => {
    fleet.put("claims", buildClaim(1, { selectedNode: NODE }));
    const asked = buildLogicalVolume(1, NODE);
    const tried = { ...asked, metadata: { ...asked.metadata, generation: 1 } };
    fleet.put("logicalVolumes", tried);
    expect(verdict(buildPod(2))).toBe(TAKEN);
    fleet.put("logicalVolumes", { ...tried, status: { observedGeneration: 1, code: 3, message: "no such option" } });
    expect(verdict(buildPod(2))).toBe("fits");
    const anew = { ...tried, metadata: { ...tried.metadata, generation: 2 } };
    fleet.put("logicalVolumes", { ...anew, status: { observedGeneration: 1, code: 3 } });
    expect(verdict(buildPod(2))).toBe(TAKEN);
  });

  it("reserves for a claim that nobody makes a volume for ten minutes at most, and again on another node", () => {
    addNode(fleet, "other", { free: "15Gi" });
    fleet.put("claims", buildClaim(1, { selectedNode: NODE }));
    expect(verdict(buildPod(2))).toBe(TAKEN);
    fleet.nowMs += 599_000;
    expect(verdict(buildPod(2))).toBe(TAKEN);
    fleet.nowMs += 1000;
    expect(verdict(buildPod(2))).toBe("fits");
    // An attempt that fails does not begin it anew.
    fleet.put("logicalVolumes", buildLogicalVolume(1, NODE));
    expect(verdict(buildPod(2))).toBe(TAKEN);
    fleet.put("logicalVolumes", { ...buildLogicalVolume(1, NODE), status: { code: 3 } });
    expect(verdict(buildPod(2))).toBe("fits");
    fleet.remove("logicalVolumes", `fs-${uidOf(1)}`);
    expect(verdict(buildPod(2))).toBe("fits");
    fleet.put("claims", buildClaim(1));
    expect(verdict(buildPod(2))).toBe("fits");
    fleet.put("claims", buildClaim(1, { selectedNode: NODE }));
    expect(verdict(buildPod(2))).toBe(TAKEN);
    fleet.put("claims", buildClaim(1, { selectedNode: "other" }));
    expect(verdict(buildPod(2), "other")).toBe(TAKEN);
  });

  describe("counts an extend", () => {
    const room = (gibibytes: number): string => `device class ssd: 10Gi needed, at most ${gibibytes}Gi free here`;
    beforeEach(() => {
      fleet.put("layouts", buildLocalLayout(3, NODE, 2));
      expect(fleet.placement.filter(buildPod(9, []), [NODE], fleet.nowMs).fits).toEqual([NODE]);
    });

    it("from its decision until the node's figures can show it, over its end", () => {
      fleet.put("layouts", buildLocalLayout(3, NODE, 2, 8));
      expect(verdict(buildPod(2))).toBe(room(9));
      fleet.put("layouts", buildLocalLayout(3, NODE, 8));
      expect(verdict(buildPod(2))).toBe(room(9));
      fleet.nowMs += 200;
      addNode(fleet, NODE, { free: "15Gi" });
      expect(verdict(buildPod(2))).toBe(room(9));
      fleet.nowMs += 200;
      addNode(fleet, NODE, { free: "9Gi" });
      expect(verdict(buildPod(2))).toBe(room(9));
      expect(fleet.ledger.count().reservations).toBe(0);
    });

    it("that goes on in steps: each of them", () => {
      fleet.put("layouts", buildLocalLayout(3, NODE, 2, 9));
      fleet.put("layouts", buildLocalLayout(3, NODE, 5, 9));
      expect(verdict(buildPod(2))).toBe(room(8));
      fleet.put("layouts", buildLocalLayout(3, NODE, 9));
      expect(verdict(buildPod(2))).toBe(room(8));
    });

    it("no longer after a limit, where the node's figures stay as they are", () => {
      fleet.put("layouts", buildLocalLayout(3, NODE, 8));
      expect(verdict(buildPod(2))).toBe(room(9));
      fleet.nowMs += 15_000;
      expect(verdict(buildPod(2))).toBe("fits");
    });
  });

  describe("counts what the node may take by itself in an emergency", () => {
    const room = (gibibytes: number): string => `device class ssd: 10Gi needed, at most ${gibibytes}Gi free here`;
    const granted = (
      index: number,
      gibibytes: number,
      grantGib: number,
      targetGib = gibibytes,
      untilMs = NOW_MS + 1,
    ) => {
      const layout = buildLocalLayout(index, NODE, gibibytes, targetGib);
      const emergency = {
        size: `${grantGib}Gi`,
        minAvailable: "1Gi",
        expiry: new Date(untilMs).toISOString(),
        epoch: 1,
      };
      fleet.put("layouts", { ...layout, spec: { ...layout.spec, emergency } });
    };

    it("of one filesystem: what it was granted beyond what it has", () => {
      granted(3, 2, 8);
      expect(verdict(buildPod(2))).toBe(room(9));
    });

    it("of several: the largest alone, so that any one of them can be met", () => {
      granted(3, 2, 8);
      granted(4, 1, 5);
      expect(verdict(buildPod(2))).toBe(room(9));
    });

    it("beside an extend that is decided: what it was granted beyond that", () => {
      granted(3, 2, 8, 5);
      expect(verdict(buildPod(2))).toBe(room(9));
      granted(3, 2, 4, 9);
      expect(verdict(buildPod(2))).toBe(room(8));
    });

    it("no longer when the grant has expired", () => {
      granted(3, 2, 8, 2, NOW_MS);
      expect(verdict(buildPod(2))).toBe("fits");
    });
  });

  it("goes on reserving a volume that is made while the node's reports are too early to show it", () => {
    fleet.put("claims", buildClaim(1, { selectedNode: NODE }));
    fleet.put("logicalVolumes", buildLogicalVolume(1, NODE, { isMade: true }));
    expect(verdict(buildPod(2))).toBe(TAKEN);
    fleet.nowMs += 200;
    addNode(fleet, NODE, { free: "15Gi" });
    expect(verdict(buildPod(2))).toBe(TAKEN);
    expect(fleet.ledger.count().reservations).toBe(1);
    fleet.nowMs += 200;
    addNode(fleet, NODE, { free: "5Gi" });
    expect(verdict(buildPod(2))).toBe(TAKEN);
    expect(fleet.ledger.count().reservations).toBe(0);
  });

  it("takes a volume for shown after a limit, where the node's figures stay as they are", () => {
    fleet.put("claims", buildClaim(1, { selectedNode: NODE }));
    fleet.put("logicalVolumes", buildLogicalVolume(1, NODE, { isMade: true }));
    expect(verdict(buildPod(2))).toBe(TAKEN);
    fleet.nowMs += 15_000;
    expect(verdict(buildPod(2))).toBe("fits");
  });

  it("reserves for a pod that is bound or nominated before its claim says so", () => {
    fleet.put("pods", { ...buildPod(1), status: { nominatedNodeName: NODE } });
    expect(verdict(buildPod(2))).toBe(TAKEN);
    fleet.put("pods", { ...buildPod(1), status: { nominatedNodeName: NODE, phase: "Failed" } });
    expect(verdict(buildPod(2))).toBe("fits");
    const leaving = buildPod(1, undefined, NODE);
    leaving.metadata.deletionTimestamp = new Date(NOW_MS).toISOString();
    fleet.put("pods", leaving);
    expect(verdict(buildPod(2))).toBe("fits");
  });

  it("is the same after a restart: from the objects alone", () => {
    fleet.put("claims", buildClaim(1, { selectedNode: NODE }));
    fleet.put("logicalVolumes", buildLogicalVolume(3, NODE, { size: "2Gi" }));
    fleet.view.refresh(fleet.nowMs);
    const another = createFleet();
    for (const kind of [
      "storageClasses",
      "nodes",
      "csiNodes",
      "claims",
      "pods",
      "logicalVolumes",
      "nodeStorages",
    ] as const)
      for (const object of fleet.stores[kind].list()) another.put(kind, object);
    another.view.refresh(another.nowMs);
    const { reserved, held } = fleet.ledger.takenOf(NODE);
    expect(another.ledger.takenOf(NODE)).toMatchObject({ reserved, held });
    expect(another.ledger.takenOf(NODE).reserved.bytes).toEqual(new Map([["lvm/ssd", 12 * 1024 ** 3]]));
  });

  const both = ["claim-1", "claim-2"];

  it("does not credit a pod with what it has already, which its node does not show yet", () => {
    fleet.put("claims", buildClaim(1, { volumeName: "pv-1" }));
    fleet.put("volumes", buildVolume("pv-1", LOCAL_DRIVER, `fs-${uidOf(1)}`));
    fleet.put("logicalVolumes", buildLogicalVolume(1, NODE, { isMade: true }));
    expect(verdict(buildPod(3, both))).toBe(TAKEN);
    fleet.put("logicalVolumes", buildLogicalVolume(1, NODE));
    expect(verdict(buildPod(3, both))).toBe(TAKEN);
  });

  it("does not credit a pod with what its node has made for it, while that is not shown", () => {
    fleet.put("claims", buildClaim(1, { selectedNode: NODE }));
    fleet.put("logicalVolumes", buildLogicalVolume(1, NODE, { isMade: true }));
    expect(verdict(buildPod(3, both))).toBe(TAKEN);
  });

  it("asks no second time for what its node has made, whether the node shows it or not", () => {
    fleet.put("claims", buildClaim(1, { selectedNode: NODE }));
    fleet.put("logicalVolumes", buildLogicalVolume(1, NODE, { isMade: true }));
    expect(verdict(buildPod(1))).toBe("fits");
    addNode(fleet, NODE, { free: "5Gi" });
    expect(verdict(buildPod(1))).toBe("fits");
    fleet.nowMs += 15_000;
    expect(verdict(buildPod(1))).toBe("fits");
    expect(fleet.ledger.count()).toMatchObject({ reservations: 0, holds: 0 });
    addNode(fleet, "other", { free: "5Gi" });
    expect(verdict(buildPod(1), "other")).toBe(TAKEN);
  });

  it("holds what a pod asks beside what it has reserved, on the node of that too", () => {
    addNode(fleet, NODE, { free: "25Gi" });
    fleet.put("claims", buildClaim(1, { selectedNode: NODE }));
    fleet.put("claims", buildClaim(3));
    expect(verdict(buildPod(1, both))).toBe("fits");
    expect(verdict(buildPod(3))).toBe(HELD);
    fleet.put("claims", buildClaim(2, { selectedNode: NODE }));
    expect(verdict(buildPod(3))).toBe(TAKEN);
    expect(fleet.ledger.count().holds).toBe(0);
  });

  it("holds a pod that another replica has answered from prioritize on", () => {
    fleet.placement.prioritize(buildPod(1), [NODE], fleet.nowMs);
    expect(verdict(buildPod(2))).toBe(HELD);
  });
});

describe("a full ledger", () => {
  it("makes further pods wait, and forgets none that it holds for", () => {
    addNode(fleet, NODE, { free: "1Ti" });
    fleet.put("claims", buildClaim(0, { request: "1Mi" }));
    const podOf = (index: number) => buildPod(index, ["claim-0"]);
    for (let index = 0; index < HOLDS_LIMIT; index += 1) expect(filter(podOf(index)).fits).toEqual([NODE]);
    expect(verdict(podOf(HOLDS_LIMIT))).toContain("more than 10000 pods are being placed at once");
    expect(verdict(podOf(1))).toBe("fits");
    expect(fleet.ledger.count().holds).toBe(HOLDS_LIMIT);
    fleet.put("pods", buildPod(0, ["claim-0"], NODE));
    expect(verdict(podOf(HOLDS_LIMIT))).toBe("fits");
  });
});

describe("the score", () => {
  const scores = (pod: Pod, names: readonly string[]) =>
    Object.fromEntries(
      fleet.placement.prioritize(pod, names, fleet.nowMs).map(({ nodeName, score }) => [nodeName, score]),
    );

  it("prefers free space, then an idle disk", () => {
    fleet.put("claims", buildClaim(1));
    addNode(fleet, "large", { free: "1Ti", size: "2Ti" });
    addNode(fleet, "small", { free: "20Gi", size: "2Ti" });
    addNode(fleet, "busy", { free: "1Ti", size: "2Ti", ioUtilization: 100 });
    addNode(fleet, "idle", { free: "1Ti", size: "2Ti", ioUtilization: 0 });
    const {
      large = 0,
      small = 0,
      busy = 0,
      idle = 0,
      unknown,
    } = scores(buildPod(1), ["large", "small", "busy", "idle", "unknown"]);
    expect(large).toBeGreaterThan(small);
    expect(idle).toBeGreaterThan(busy);
    expect(unknown).toBe(0);
  });

  it("offers the best of many nodes, and others to the next pod", () => {
    fleet = createFleet({ offeredNodes: 2 });
    addClasses(fleet);
    const names = ["a", "b", "c", "d"];
    for (const name of names) addNode(fleet, name, { free: "15Gi" });
    for (const index of [1, 2, 3]) fleet.put("claims", buildClaim(index));
    const first = filter(buildPod(1), names).fits;
    const second = filter(buildPod(2), names).fits;
    expect([...first, ...second].sort()).toEqual(names);
    expect(filter(buildPod(3), names)).toMatchObject({ fits: [], fitFailures: { length: 4 } });
  });
});
