// What the pod webhook makes of a pod, as the object that would be stored.
import { describe, expect, it } from "@jest/globals";
import { jsonPatch } from "../../../../demo/control-plane/apply/json-patch.ts";
import type { Pod } from "../../../../src/contracts/kubernetes/resources.ts";
import type { AdmittedPod } from "../../../../src/operator/webhook/admission-review.ts";
import {
  decidePlacement,
  missedPlacement,
  type PlacedClaim,
  type PodClaims,
} from "../../../../src/operator/webhook/decide-placement.ts";
import { buildPod, ofClaim } from "../../../builders/pod-review.ts";

const ASKING = new Set(["tidemark-scheduler"]);
const CAPACITY = "tidemark.dev/capacity";
const MARK = { requests: { [CAPACITY]: "1" }, limits: { [CAPACITY]: "1" } };
const volumes = [ofClaim("data")];
const LVM: PlacedClaim = { className: "fast", bytes: 1 << 30 };

const claims = (ours: readonly PlacedClaim[], missing: readonly string[] = []): PodClaims => ({ ours, missing });

function placed(pod: AdmittedPod, facts: PodClaims, asking: ReadonlySet<string> = ASKING): Pod {
  const { patch } = decidePlacement(pod, facts, asking);
  return jsonPatch({ ...pod }, patch) as Pod;
}

describe("a pod with a claim of ours", () => {
  it("gets the scheduler, the resource in its first container, and what it asks for as annotations", () => {
    const pod = buildPod(volumes);
    expect(placed(pod, claims([LVM]))).toEqual({
      ...pod,
      metadata: { ...pod.metadata, annotations: { "capacity.tidemark.dev/fast": "1073741824" } },
      spec: {
        ...pod.spec,
        schedulerName: "tidemark-scheduler",
        containers: [
          { name: "first", image: "none", resources: MARK },
          { name: "second", image: "none" },
        ],
      },
    });
    expect(decidePlacement(pod, claims([LVM]), ASKING).result).toBe("Marked");
  });

  it("is the same after it was sent a second time, and is not patched then", () => {
    const once = placed(buildPod(volumes), claims([LVM]));
    expect(decidePlacement(once, claims([LVM]), ASKING)).toEqual({ result: "AlreadyMarked", patch: [], warnings: [] });
  });

  it("keeps what its container asks for, and its own annotations", () => {
    const resources = { requests: { cpu: "100m" }, limits: { memory: "1Gi" }, claims: [{ name: "gpu" }] };
    const pod = buildPod(volumes, { containers: [{ name: "first", resources }], annotations: { team: "shop" } });
    const after = placed(pod, claims([LVM]));
    expect(after.spec.containers[0]?.resources).toEqual({
      requests: { cpu: "100m", [CAPACITY]: "1" },
      limits: { memory: "1Gi", [CAPACITY]: "1" },
      claims: [{ name: "gpu" }],
    });
    expect(after.metadata.annotations).toEqual({ team: "shop", "capacity.tidemark.dev/fast": "1073741824" });
  });

  it("says the sum of each class, and 0 of one whose volumes are there already", () => {
    const ours = [LVM, LVM, { className: "tidemark-span", bytes: 5 }, { className: "old", bytes: 0 }];
    expect(placed(buildPod(volumes), claims(ours)).metadata.annotations).toEqual({
      "capacity.tidemark.dev/fast": "2147483648",
      "capacity.tidemark.dev/old": "0",
      "capacity.tidemark.dev/tidemark-span": "5",
    });
  });

  it("is marked when all of its claims are bound, and when others of it do not exist", () => {
    const bound = claims([{ className: "", bytes: 0 }], ["later"]);
    const { result, warnings } = decidePlacement(buildPod(volumes), bound, ASKING);
    expect({ result, warnings }).toEqual({ result: "Marked", warnings: [] });
    expect(placed(buildPod(volumes), bound).metadata.annotations).toBeUndefined();
  });

  it("loses annotations under our prefix that somebody forged, and a forged amount", () => {
    const annotations = { "capacity.tidemark.dev/fast": "1", "capacity.tidemark.dev/other": "1", team: "shop" };
    const resources = { requests: { [CAPACITY]: 7 }, limits: { [CAPACITY]: "7" } };
    const { spec, ...pod } = buildPod(volumes, { annotations });
    const after = placed({ ...pod, spec: { ...spec, containers: [{ name: "first", resources }] } }, claims([LVM]));
    expect(after.metadata.annotations).toEqual({ "capacity.tidemark.dev/fast": "1073741824", team: "shop" });
    expect(after.spec.containers[0]?.resources).toEqual(MARK);
  });

  it.each<[name: string, scheduler: string | undefined, asking: string[], after: string, isAsked: boolean]>([
    ["none", undefined, [], "tidemark-scheduler", true],
    ["an empty one", "", [], "tidemark-scheduler", true],
    ["ours", "tidemark-scheduler", [], "tidemark-scheduler", true],
    ["the default one, which asks the extender", "default-scheduler", ["default-scheduler"], "default-scheduler", true],
    ["none, where the default one asks", undefined, ["default-scheduler"], "default-scheduler", true],
    ["another one", "volcano", [], "volcano", false],
    ["another one, where the default one asks", "volcano", ["default-scheduler"], "volcano", false],
    ["another one that asks", "volcano", ["volcano"], "volcano", true],
  ])("names a scheduler: %s", (_name, schedulerName, others, after, isAsked) => {
    const pod = buildPod(volumes, { schedulerName });
    const result = placed(pod, claims([LVM]), new Set([...ASKING, ...others]));
    expect(result.spec.schedulerName).toBe(after);
    // No node offers the resource: a scheduler that does not ask would look for one for ever.
    expect(result.spec.containers[0]?.resources).toEqual(isAsked ? MARK : {});
    expect(result.metadata.annotations).toEqual({ "capacity.tidemark.dev/fast": "1073741824" });
  });

  it("never gets an annotation that the API server would refuse the pod for", () => {
    const long = { className: "c".repeat(64), bytes: 1 };
    expect(placed(buildPod(volumes), claims([long])).metadata.annotations).toBeUndefined();
    const annotations = { big: "x".repeat(262_144 - "big".length), "capacity.tidemark.dev/fast": "1" };
    expect(placed(buildPod(volumes, { annotations }), claims([LVM])).metadata.annotations).toEqual({
      big: annotations.big,
    });
  });

  it("is left alone when its node is chosen already", () => {
    const decided = decidePlacement(buildPod(volumes, { nodeName: "node1" }), claims([LVM]), ASKING);
    expect(decided).toEqual({ result: "HasNode", patch: [], warnings: [] });
  });
});

describe("a pod without claims of ours", () => {
  it("is not touched, whatever it says itself", () => {
    const annotations = { "capacity.tidemark.dev/fast": "1" };
    const decided = decidePlacement(buildPod(volumes, { annotations }), claims([]), ASKING);
    expect(decided).toEqual({ result: "NotOurs", patch: [], warnings: [] });
  });

  it("is told which claims there are not, in a few words", () => {
    const names = ["data", "x".repeat(253), "third", "fourth"];
    const [warning = "", ...more] = decidePlacement(buildPod(volumes), claims([], names), ASKING).warnings;
    expect(more).toEqual([]);
    expect(warning).toContain(`claim "data", "${"x".repeat(39)}…", … does not exist yet`);
    expect(warning.length).toBeLessThan(256);
  });
});

describe("a pod that waits for a node", () => {
  const unmarked = buildPod(volumes);
  const marked = placed(unmarked, claims([LVM]));
  it.each<[name: string, pod: Pod, facts: PodClaims, asking: string[], isMissed: boolean]>([
    ["with a claim of ours and no mark", unmarked, claims([LVM]), [], true],
    ["without a claim of ours", unmarked, claims([]), [], false],
    ["marked", marked, claims([LVM]), [], false],
    ["with another scheduler", buildPod(volumes, { schedulerName: "volcano" }), claims([LVM]), [], false],
    [
      "with our scheduler by its own choice, without the resource",
      { ...marked, spec: { ...marked.spec, containers: [{ name: "first" }] } },
      claims([LVM]),
      [],
      true,
    ],
    ["unmarked under a default scheduler that asks", unmarked, claims([LVM]), ["default-scheduler"], true],
    [
      "marked under a default scheduler that asks",
      placed(unmarked, claims([LVM]), new Set([...ASKING, "default-scheduler"])),
      claims([LVM]),
      ["default-scheduler"],
      false,
    ],
    ["on a node meanwhile", buildPod(volumes, { nodeName: "node1" }), claims([LVM]), [], false],
  ])("is told what it missed, or not: %s", (_name, pod, facts, others, isMissed) => {
    const message = missedPlacement(pod, facts, new Set([...ASKING, ...others]));
    expect(message !== undefined).toBe(isMissed);
    if (message !== undefined)
      expect(message).toContain(`${pod.spec.schedulerName} did not check the capacity for this pod`);
  });
});
