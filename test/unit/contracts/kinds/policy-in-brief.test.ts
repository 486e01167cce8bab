import { expect, it } from "@jest/globals";
import { policyInBrief } from "../../../../src/contracts/kinds/volume-policy.ts";
import { aVolumePolicy } from "../../../builders/policy.ts";

it("of a policy only that is remembered which says what it is and when it was written", () => {
  const policy = aVolumePolicy();
  const metadata = {
    ...policy.metadata,
    uid: "uid",
    generation: 3,
    resourceVersion: "7",
    deletionTimestamp: "2026-01-02T00:00:00Z",
  };
  const ballast = "x".repeat(250_000);
  const written = { ...metadata, annotations: { ballast }, labels: { ballast }, managedFields: [{ manager: ballast }] };
  expect(policyInBrief({ ...policy, metadata: written })).toEqual({ ...policy, metadata });
  expect(policyInBrief(policy)).toEqual(policy);
});
