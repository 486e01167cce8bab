import { describe, expect, it } from "@jest/globals";
import type { LastOperation } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { raisedRequestBytes } from "../../../../src/policy-engine/gather/claim-facts.ts";
import { buildClaim } from "../../../builders/claim.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";

const FAILED_EXTEND: LastOperation = {
  kind: "Extend",
  from: "3Gi",
  to: "4Gi",
  reached: "3Gi",
  outcome: "Failed",
  epoch: 1,
  startedAt: "2026-11-20T11:00:00.000Z",
  endedAt: "2026-11-20T11:00:05.000Z",
};

const claimed = (request: string, provided: string) => ({
  ...buildClaim({ name: "data", request }),
  status: { capacity: { storage: provided } },
});
const layoutAfter = (last: Partial<LastOperation>) => buildLayout({}, { lastOperation: { ...FAILED_EXTEND, ...last } });

describe("a claim's raised request", () => {
  it.each([
    ["more than it was given", claimed("4Gi", "3Gi"), buildLayout(), 4 * GIB],
    ["what an extend has failed to reach", claimed("4Gi", "4Gi"), layoutAfter({}), 4 * GIB],
    ["nothing once it was given", claimed("4Gi", "4Gi"), buildLayout(), undefined],
    ["nothing once it was reached", claimed("4Gi", "4Gi"), layoutAfter({ outcome: "Succeeded" }), undefined],
    ["nothing when a policy's extend failed", claimed("4Gi", "4Gi"), layoutAfter({ to: "6Gi" }), undefined],
    ["nothing when a shrink failed", claimed("4Gi", "4Gi"), layoutAfter({ kind: "Shrink" }), undefined],
    ["nothing before it has a volume", buildClaim({ name: "data", request: "4Gi" }), buildLayout(), undefined],
  ])("is %s", (_, claim, layout, bytes) => {
    expect(raisedRequestBytes(claim, layout)).toBe(bytes);
  });
});
