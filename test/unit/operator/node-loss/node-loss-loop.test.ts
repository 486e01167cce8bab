// What is read right before a claim is deleted, and what the delete itself is bound to: what caches show is only where to look.
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { NODES, type Node, type PersistentVolumeClaim } from "../../../../src/contracts/kubernetes/resources.ts";
import { ON_NODE_LOSS_ANNOTATION } from "../../../../src/contracts/names.ts";
import type { Duty } from "../../../../src/operator/led-queue.ts";
import { createOperatorMetrics } from "../../../../src/operator/metrics.ts";
import { createNodeLossLoop, type NodeLossHandling } from "../../../../src/operator/node-loss/node-loss-loop.ts";
import { KubeError } from "../../../../src/platform/kube/kube-error.ts";
import { createLogger } from "../../../../src/platform/process/log.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { buildNode } from "../../../builders/node.ts";
import { type FilledCache, filledCache } from "../../../fakes/filled-cache.ts";
import { servedClient } from "../../../fakes/served-client.ts";
import { waitFor } from "../../../harness/wait-for.ts";

const log = createLogger("test", "silent");
const LOST = "node-a";
const layout = buildLayout();

describe("the claim of a volume on a node that looks lost", () => {
  let cached: FilledCache<Node>;
  /** As the API server has them. */
  let claim: PersistentVolumeClaim | undefined;
  let nodes: Map<string, Node>;
  let reads: number;
  /** Comes right after the claim was read. */
  let meanwhile: () => void;
  let told: string[];
  let duty: Duty;

  const client = servedClient({
    get: async (resource, { name }) => {
      reads += 1;
      if (resource === NODES) return nodes.get(name);
      const read = claim;
      meanwhile();
      return read;
    },
    delete: async (_point, _resource, _name, { resourceVersion } = {}) => {
      if (resourceVersion !== undefined && resourceVersion !== claim?.metadata.resourceVersion)
        throw new KubeError("Conflict", 409, "the claim has changed");
      claim = undefined;
      return true;
    },
  });

  beforeEach(() => {
    [reads, meanwhile, told] = [0, () => undefined, []];
    cached = filledCache();
    nodes = new Map();
    const { namespace, name = "", uid } = layout.spec.claimRef ?? {};
    const annotations = { [ON_NODE_LOSS_ANNOTATION]: "Delete" };
    const metadata = { namespace, name, uid, resourceVersion: "7", annotations };
    claim = { apiVersion: "v1", kind: "PersistentVolumeClaim", metadata, spec: {} };
    const layouts = filledCache({ "claim-uid": () => [] }, [layout]);
    const handling: NodeLossHandling = {
      client,
      caches: { layouts, nodes: cached, onNodeLossChange: () => undefined },
      claims: filledCache(),
      events: { record: (_object, _type, _reason, message) => void told.push(message), flush: async () => undefined },
      metrics: createOperatorMetrics(),
      clock: { nowMs: () => 0, monotonicMs: () => 0 },
      delayMs: 0,
    };
    duty = createNodeLossLoop(handling, Promise.resolve(), log);
  });
  afterEach(() => duty.end());

  /** One look of a leader, to its end. */
  async function look(): Promise<void> {
    duty.begin();
    await waitFor("a look at the API server", () => (reads > 0 ? true : undefined));
    await duty.end();
  }

  it("is deleted, as it says, where one node of several is gone", async () => {
    for (const name of ["node-b", "node-c"]) cached.put(buildNode(name));
    await look();
    expect(claim).toBeUndefined();
    expect(told).toEqual([expect.stringContaining("the claim is deleted")]);
  });

  it("stays where the API server has the node, whatever the cache shows", async () => {
    for (const name of ["node-b", "node-c"]) cached.put(buildNode(name));
    nodes.set(LOST, buildNode(LOST));
    await look();
    expect([claim?.metadata.name, told]).toEqual(["data", []]);
  });

  it("stays where somebody changes it between the look and the delete", async () => {
    for (const name of ["node-b", "node-c"]) cached.put(buildNode(name));
    meanwhile = () => {
      if (claim !== undefined)
        claim = { ...claim, metadata: { ...claim.metadata, resourceVersion: "8", annotations: {} } };
    };
    await look();
    expect([claim?.metadata.name, told]).toEqual(["data", []]);
  });

  it("stays where nodes without volumes of ours have left a moment ago as well: too many at once", async () => {
    const others = ["node-b", "node-c", "node-d", "node-e", "node-f", "node-g"];
    for (const name of [LOST, ...others]) cached.put(buildNode(name));
    for (const name of [LOST, "node-b", "node-c"]) cached.remove(name);
    await look();
    expect(claim?.metadata.name).toBe("data");
    expect(told).toEqual([expect.stringContaining("3 of 7 nodes look lost, above the limit of 1")]);
  });
});
