import { expect, it } from "@jest/globals";
import fc from "fast-check";
import { isUnplaceable } from "../../../src/extender/decide/decide-demand.ts";
import {
  addClasses,
  addNode,
  agentPod,
  buildClaim,
  buildLogicalVolume,
  buildPod,
  createFleet,
  type Fleet,
} from "../../builders/placement.ts";
import { property, type Reach } from "../../harness/property.ts";

const NODES = ["a", "b", "c"];
const CLAIMS = [1, 2, 3, 4];
/** Claims of three shapes, so that verdicts of one are kept while others are asked for. */
const CLASSES = ["lvm", "lvm-small", "lvm-ssd", "lvm"];

type Step = (fleet: Fleet) => void;

const node = fc.constantFrom(...NODES);
const index = fc.constantFrom(...CLAIMS);
const steps: fc.Arbitrary<Step> = fc.oneof(
  fc.tuple(node, fc.integer({ min: 0, max: 40 }), fc.boolean()).map(
    ([name, free, cordoned]): Step =>
      (fleet) =>
        addNode(fleet, name, { free: `${free}Gi`, cordoned, ioUtilization: free }),
  ),
  node.map(
    (name): Step =>
      (fleet) =>
        fleet.remove("nodes", name),
  ),
  fc.tuple(index, node).map(
    ([claim, selectedNode]): Step =>
      (fleet) =>
        fleet.put("claims", claimOf(claim, selectedNode)),
  ),
  fc.tuple(index, node, fc.boolean()).map(
    ([volume, name, isMade]): Step =>
      (fleet) =>
        fleet.put("logicalVolumes", buildLogicalVolume(volume, name, { isMade })),
  ),
  fc.tuple(node, fc.boolean()).map(
    ([name, heard]): Step =>
      (fleet) =>
        fleet.put("pods", agentPod(name, heard ? "True" : "False", fleet.nowMs)),
  ),
  fc.integer({ min: 0, max: 70_000 }).map(
    (ms): Step =>
      (fleet) => {
        fleet.nowMs += ms;
      },
  ),
  index.map(
    (claim): Step =>
      (fleet) =>
        fleet.placement.filter(buildPod(claim), NODES, fleet.nowMs),
  ),
);

function claimOf(claim: number, selectedNode?: string) {
  const storageClassName = CLASSES[claim - 1] ?? "lvm";
  return buildClaim(claim, { storageClassName, ...(selectedNode === undefined ? {} : { selectedNode }) });
}

property(
  "a kept verdict is what would be found anew, whatever has changed in between",
  { runs: 60, reaches: { "a node that takes a pod": 0.5, "a node that takes none": 0.3 } },
  [fc.array(steps, { maxLength: 60 })],
  (reach, taken) => {
    const fleet = createFleet({ offeredNodes: 1 });
    addClasses(fleet);
    for (const name of NODES) addNode(fleet, name, { free: "25Gi" });
    for (const claim of CLAIMS) fleet.put("claims", claimOf(claim));
    for (const step of taken) {
      step(fleet);
      for (const claim of CLAIMS) expectAsExplained(fleet, claim, reach);
    }
  },
);

/** explain() keeps nothing. */
function expectAsExplained(
  { placement, nowMs }: Fleet,
  claim: number,
  reach: Reach<"a node that takes a pod" | "a node that takes none">,
): void {
  const pod = buildPod(claim);
  const explained = placement.explain(pod, nowMs);
  if (explained === undefined || isUnplaceable(explained)) throw new Error(`pod ${claim} asks for nothing`);
  const names = explained.map(({ nodeName }) => nodeName);
  const { fits, fitFailures } = placement.filter(pod, names, nowMs);
  if (fits.length > 0) reach("a node that takes a pod");
  if (fitFailures.length > 0) reach("a node that takes none");
  const refused = explained.filter(({ fitFailure }) => fitFailure !== undefined);
  expect(fitFailures).toEqual(refused.map(({ nodeName, fitFailure }) => ({ nodeName, fitFailure })));
  const best = Math.max(...explained.map(({ fitFailure, score }) => (fitFailure === undefined ? score : -1)));
  const offered = explained.filter(({ nodeName }) => fits.includes(nodeName));
  expect(offered.map(({ score }) => score)).toEqual(refused.length === explained.length ? [] : [best]);
}

it("a node whose agent is not heard is judged by the time that has passed, without any other change", () => {
  const fleet = createFleet({ offeredNodes: 1 });
  addClasses(fleet);
  fleet.put("claims", buildClaim(1));
  addNode(fleet, "best", { free: "90Gi" });
  addNode(fleet, "unheard", { free: "20Gi" });
  fleet.put("pods", agentPod("unheard", "False", fleet.nowMs));
  const fitFailures = () => fleet.placement.filter(buildPod(1), ["best", "unheard"], fleet.nowMs).fitFailures;
  expect(fitFailures()).toEqual([]);
  fleet.nowMs += 61_000;
  expect(fitFailures()).toMatchObject([{ nodeName: "unheard", fitFailure: { reason: "AgentNotReady" } }]);
});
