// Which questions are believed: those about a pod that is there, unbound, with the claims that it has.
import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import type { Pod } from "../../../../src/contracts/kubernetes/resources.ts";
import { MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { type AskedPods, createAskedPods } from "../../../../src/extender/gather/asked-pods.ts";
import { addClasses, addNode, buildClaim, buildPod, createFleet, type Fleet } from "../../../builders/placement.ts";

const SMALL = 1000;

let fleet: Fleet;
let pods: AskedPods;
beforeEach(() => {
  fleet = createFleet();
  addClasses(fleet);
  addNode(fleet, "node-1", { free: "15Gi" });
  fleet.put("claims", buildClaim(1));
  pods = createAskedPods(fleet.stores.pods);
});

function add(pod: Pod): void {
  fleet.put("pods", pod);
  pods.changed(pod);
}

/** The time it took by the timers' clock, once the pod was seen or given up. */
async function waitedMs(pod: Pod, bytes = SMALL): Promise<number> {
  const startMs = performance.now();
  await pods.seen(pod, bytes);
  return performance.now() - startMs;
}

describe("a question", () => {
  const named = (pod: Pod, metadata: Partial<Pod["metadata"]>): Pod => ({
    ...pod,
    metadata: { ...pod.metadata, ...metadata },
  });

  beforeEach(() => add(buildPod(1)));

  it("is believed of the pod that is there, and answered from what is there", () => {
    const asked = buildPod(1);
    asked.spec.tolerations = [{ operator: "Exists" }];
    expect(pods.find(asked)).toMatchObject({ metadata: { uid: "pod-uid-1" } });
    expect(pods.find(asked)?.spec.tolerations).toBeUndefined();
  });

  const forged: readonly (readonly [string, () => Pod])[] = [
    ["a pod that is not there", () => buildPod(2)],
    ["another UID than the pod's", () => named(buildPod(1), { uid: "pod-uid-2" })],
    ["no UID", () => named(buildPod(1), { uid: undefined })],
    ["the pod's UID in another namespace", () => named(buildPod(1), { namespace: "bank" })],
    ["another claim than the pod's", () => buildPod(1, ["claim-2"])],
    ["one claim more than the pod has", () => buildPod(1, ["claim-1", "claim-2"])],
  ];
  it.each(forged)("is not believed that names %s", (_name, pod) => {
    expect(pods.find(pod())).toBeUndefined();
  });

  it("is not believed about a pod that has its node, or has ended", () => {
    add(buildPod(1, undefined, "node-1"));
    expect(pods.find(buildPod(1))).toBeUndefined();
    add({ ...buildPod(1), status: { phase: "Failed" } });
    expect(pods.find(buildPod(1))).toBeUndefined();
  });

  it("about a pod without claims is answered as it came: nothing is taken for it", () => {
    const asked = buildPod(7, []);
    expect(pods.find(asked)).toBe(asked);
  });

  it("keeps of a pod's tolerations the one by which it may be on a node that is cordoned", () => {
    addNode(fleet, "node-1", { free: "15Gi", cordoned: true });
    const pod = buildPod(1);
    pod.spec.tolerations = [{ key: "other" }, { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" }];
    add(pod);
    const seen = pods.find(buildPod(1));
    expect(seen?.spec.tolerations).toHaveLength(1);
    expect(fleet.placement.filter(seen ?? buildPod(9, []), ["node-1"], fleet.nowMs).fits).toEqual(["node-1"]);
  });
});

describe("a pod that is not seen yet", () => {
  beforeEach(() => {
    jest.useFakeTimers();
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  it("is waited for until it is seen, and no longer", async () => {
    const waiting = waitedMs(buildPod(1));
    add(buildPod(2));
    add(buildPod(1));
    expect(await waiting).toBe(0);
    expect(pods.find(buildPod(1))).toBeDefined();
  });

  it("is waited for where one of its name is on its way out", async () => {
    const before = buildPod(1);
    before.metadata.uid = "before";
    add(before);
    const waiting = waitedMs(buildPod(1));
    add(buildPod(1));
    expect(await waiting).toBe(0);
  });

  it("is waited for 200 ms at most", async () => {
    const waiting = waitedMs(buildPod(1));
    await jest.advanceTimersByTimeAsync(1000);
    expect(await waiting).toBe(200);
    expect(pods.find(buildPod(1))).toBeUndefined();
  });

  it("is not waited for where it is there but not as it is asked about", async () => {
    add(buildPod(1, undefined, "node-1"));
    expect(await waitedMs(buildPod(1))).toBe(0);
  });

  it("waits while others do, until they fill the memory that waiting may take", async () => {
    const many = Array.from({ length: 256 }, (_, index) => waitedMs(buildPod(index)));
    expect(await waitedMs(buildPod(999))).toBe(0);
    await jest.advanceTimersByTimeAsync(200);
    await Promise.all(many);
    const large = waitedMs(buildPod(1), 64 * MIB);
    expect(await waitedMs(buildPod(2))).toBe(0);
    await jest.advanceTimersByTimeAsync(200);
    await large;
    const small = waitedMs(buildPod(2));
    await jest.advanceTimersByTimeAsync(200);
    expect(await small).toBe(200);
  });
});
