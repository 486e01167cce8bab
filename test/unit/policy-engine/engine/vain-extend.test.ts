// V2 in the running engine: what it remembers of an extend that was in vain, from one sample to the next.
import { expect, it } from "@jest/globals";
import { createEngineMetrics } from "../../../../src/policy-engine/metrics.ts";
import { aPolicy } from "../../../builders/policy.ts";
import { type WatchedClaim, watchClaim } from "../../../harness/watched-claim.ts";

const metrics = createEngineMetrics(() => true);
/** Its comparison is the wrong way round. */
const REVERSED = aPolicy({
  claimBackend: "Enabled",
  limits: { max: "100Gi" },
  rules: [{ name: "reversed", action: "Extend", when: "volume.usedRatio <= 0.8", by: "2Gi" }],
});

async function onceExtended(): Promise<WatchedClaim> {
  const claim = watchClaim(metrics, REVERSED);
  await claim.decide(10, 0.5);
  claim.claimSays("12Gi", 12);
  return claim;
}

const sizes = ({ targets }: WatchedClaim): string[] => targets.map(({ size }) => size);

it("a rule that no size makes false extends once, however many samples come", async () => {
  const claim = await onceExtended();
  for (let i = 0; i < 20; i += 1) expect(await claim.decide(12, 5 / 12)).toBe("ExtendDidNotHelp");
  expect(sizes(claim)).toEqual(["12Gi"]);
});

it("it extends again when the use has risen by 5%", async () => {
  const claim = await onceExtended();
  await claim.decide(12, 5.3 / 12);
  expect(sizes(claim)).toEqual(["12Gi", "14Gi"]);
});

it("it extends again when it was false in between", async () => {
  const claim = await onceExtended();
  expect(await claim.decide(12, 5 / 12)).toBe("ExtendDidNotHelp");
  await claim.decide(12, 0.81);
  await claim.decide(12, 5 / 12);
  expect(sizes(claim)).toEqual(["12Gi", "14Gi"]);
});
