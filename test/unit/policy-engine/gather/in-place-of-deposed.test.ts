import { describe, expect, it } from "@jest/globals";
import type { SizeTarget, WantedTarget } from "../../../../src/contracts/kinds/filesystem.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import type { Gathered } from "../../../../src/policy-engine/gather/gather-facts.ts";
import { inPlaceOfDeposed } from "../../../../src/policy-engine/gather/policy-shrink.ts";
import { buildSpan } from "../../../builders/span.ts";
import { buildFilesystem } from "../../../builders/volume.ts";

const DECIDED = "2030-01-01T00:00:00.000Z";
const LATER_MS = Date.parse("2030-01-01T00:20:00.000Z");
const deposed: SizeTarget = { size: "4Gi", from: "3Gi", epoch: 3, decidedAt: DECIDED };

/** Refused under the present leader, of epoch 4; the layout has this target. */
function replaced(
  target: SizeTarget | undefined,
  heardOf: number,
  { wanted = deposed, consolidation }: { wanted?: WantedTarget; consolidation?: object | undefined } = {},
) {
  const condition = { type: "Stalled", status: "True", reason: "StaleEpoch", message: "" } as const;
  const conditions = [{ ...condition, lastTransitionTime: DECIDED }];
  const { spec, status, ...rest } = buildSpan({ sizes: ["1Gi", "1Gi", "1Gi"] });
  const layout = { ...rest, spec: { ...spec, ...(target && { target }) }, status: { ...status, epoch: heardOf } };
  const facts = { nowMs: LATER_MS, filesystem: { sizeBytes: 3 * GIB, operationInProgress: undefined, consolidation } };
  const filesystem = buildFilesystem({ target: wanted, status: { conditions } });
  return inPlaceOfDeposed({ facts: facts as Gathered["facts"], filesystem, layout }, 4);
}

it.each<[string, SizeTarget | undefined]>([
  ["the operator has not let into the layout", undefined],
  ["its node has in the layout, and refuses since it has heard of the present leader", deposed],
])("a deposed leader's target gives way to the present size that %s", (_which, target) => {
  expect(replaced(target, 4)).toMatchObject({ sizeBytes: 3 * GIB, fromBytes: 3 * GIB, epoch: 4 });
});

it("what its node still goes towards is left to it: a raised request may wait for its member", () => {
  expect(replaced({ ...deposed, decidedAt: "2030-01-01T00:05:00.000Z" }, 3)).toBeUndefined();
});

describe("a deposed leader's merge of members", () => {
  const merge: WantedTarget = { ...deposed, size: "2Gi", from: "3Gi", members: 2 };
  const wantedOf = (sizeBytes: number) => ({ members: 2, sizeBytes, growthBytes: 0, because: "", underWay: false });

  it("stays until it is decided again while the filesystem is larger for it: nothing else says how large it was", () => {
    expect(replaced(undefined, 4, { wanted: merge, consolidation: wantedOf(2 * GIB) })).toBeUndefined();
  });

  it.each([
    ["the size is what it was, and a pod still waits", wantedOf(3 * GIB)],
    ["something else has changed the size since", undefined],
  ])("gives way to the present size where %s", (_why, consolidation) => {
    expect(replaced(undefined, 4, { wanted: merge, consolidation })).toMatchObject({ sizeBytes: 3 * GIB, epoch: 4 });
  });
});
