import { describe, expect, it } from "@jest/globals";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import { emergencyGrant } from "../../../../src/policy-engine/decide/decide-precautions.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import { aVolume, NOW_MS, type VolumeShape } from "../../../builders/facts.ts";
import { aPolicy } from "../../../builders/policy.ts";

const OPTED_IN = aPolicy({ claimBackend: "Enabled" });
const anOrdinary = (shape: VolumeShape): ReturnType<typeof aVolume> =>
  aVolume({ ...shape, claim: { backend: "claim", fsType: "ext4", storageClassName: "fast", ...shape.claim } });
const full = { usedRatio: 0.9 };

describe("an ordinary claim", () => {
  it("is extended like any other, where the policy that decides it opts it in", () =>
    expect(decide(anOrdinary(full), OPTED_IN, NO_CEILINGS)).toMatchObject({ kind: "extend", sizeBytes: 15 * GIB }));

  it("is touched by no policy that does not say so", () =>
    expect(decide(anOrdinary(full), aPolicy(), NO_CEILINGS)).toMatchObject({
      kind: "hold",
      reason: "ClaimBackendDisabled",
      message: expect.stringContaining("set spec.claimBackend of policy shop/default to Enabled"),
    }));

  it("is left to another autoscaler while its annotations are there", () =>
    expect(
      decide(anOrdinary({ ...full, claim: { otherAutoscaler: "resize.topolvm.io/increase" } }), OPTED_IN, NO_CEILINGS),
    ).toMatchObject({
      kind: "hold",
      reason: "OtherAutoscaler",
      message: expect.stringContaining("resize.topolvm.io/increase"),
    }));

  it("is asked for nothing more while its driver cannot carry out what it is asked for", () =>
    expect(
      decide(
        anOrdinary({
          ...full,
          claim: { infeasibleResize: "driver d cannot" },
          filesystem: { operationInProgress: "Extend" },
        }),
        OPTED_IN,
        NO_CEILINGS,
      ),
    ).toMatchObject({ kind: "hold", reason: "ResizeInfeasible", message: expect.stringContaining("driver d cannot") }));

  it("never shrinks, and is told what span would save, in bytes", () =>
    expect(decide(anOrdinary({ sizeBytes: 100 * GIB, usedRatio: 0.1 }), OPTED_IN, NO_CEILINGS)).toMatchObject({
      kind: "hold",
      reason: "ShrinkUnsupported",
      message: expect.stringMatching(/span would need 20Gi, and save 80Gi \(85899345920 bytes\)/),
    }));

  it("is not promised what span would not save under the policy's own minimum", () =>
    expect(
      decide(
        anOrdinary({ sizeBytes: 100 * GIB, usedRatio: 0.1 }),
        aPolicy({ claimBackend: "Enabled", limits: { min: "90Gi", max: "200Gi" } }),
        NO_CEILINGS,
      ),
    ).toMatchObject({ reason: "ShrinkUnsupported", message: expect.stringContaining(`${10 * GIB} bytes`) }));

  describe("whose volume has been extended", () => {
    const extended = (capacityBytes: number, capacityAtExtendBytes: number) =>
      anOrdinary({
        sizeBytes: 12 * GIB,
        reading: { capacityBytes, usedBytes: capacityBytes - GIB, availableBytes: GIB },
        filesystem: {
          capacityAtExtendBytes,
          lastOperation: {
            ...{ kind: "Extend", outcome: "Succeeded", endedAtMs: NOW_MS - 5000 },
            ...{ reason: undefined, floorBytes: undefined },
          },
        },
      });

    it("is not extended again while its filesystem shows no more than before", () =>
      expect(decide(extended(10 * GIB, 10 * GIB), OPTED_IN, NO_CEILINGS)).toMatchObject({
        kind: "hold",
        reason: "MetricsInconsistent",
      }));

    it("is extended again when its filesystem has grown and is full again", () =>
      expect(decide(extended(12 * GIB, 10 * GIB), OPTED_IN, NO_CEILINGS).kind).toBe("extend"));
  });

  it("is granted no emergency: no node can give it room by itself", () => {
    expect(emergencyGrant(aVolume(), OPTED_IN, NO_CEILINGS)).toBeDefined();
    expect(emergencyGrant(anOrdinary({}), OPTED_IN, NO_CEILINGS)).toBeUndefined();
  });
});
