// V5 in the running engine: what it remembers of growth, from one sample to the next.
import { expect, it } from "@jest/globals";
import { createEngineMetrics } from "../../../../src/policy-engine/metrics.ts";
import { aPolicy } from "../../../builders/policy.ts";
import { watchClaim } from "../../../harness/watched-claim.ts";

const metrics = createEngineMetrics(() => true);
const POLICY = aPolicy({
  claimBackend: "Enabled",
  limits: { max: "100Gi" },
  rules: [{ name: "grows", action: "Extend", when: "volume.secondsToFull < 600.0", by: "2Gi" }],
});

it("a rule on growth holds for want of history for its window, and is followed then", async () => {
  const claim = watchClaim(metrics, POLICY);
  const reasons: (string | undefined)[] = [];
  for (let i = 0; i <= 22 && claim.targets.length === 0; i += 1) {
    reasons.push(await claim.decide(10, 0.2 + 0.03 * i));
    claim.wait(29);
  }
  expect(new Set(reasons.slice(0, -1))).toEqual(new Set(["NotEnoughHistory"]));
  expect(reasons).toHaveLength(21);
  expect(claim.targets.map(({ size }) => size)).toEqual(["12Gi"]);
});
