// A VolumePolicy for the suites of a cluster: under it volumes grow as they fill and shrink as they empty, within seconds.
import type { VolumePolicySpec } from "../../src/contracts/kinds/volume-policy.ts";
import { aPolicySpec, EXTEND_AT_80 } from "../builders/policy.ts";

export const BREATHING = "breathing";

/** `rules` in place of an extend at 80% and a shrink below 30%. */
export function breathingPolicy(
  limits: VolumePolicySpec["limits"],
  rules: VolumePolicySpec["rules"] = [EXTEND_AT_80, shrinkBelow(30)],
): object {
  const behavior = {
    extend: { cooldown: "0s", minStep: "256Mi" },
    shrink: { stabilization: "0s", cooldown: "2s", minStep: "256Mi" },
  };
  return {
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "VolumePolicy",
    metadata: { name: BREATHING },
    spec: aPolicySpec({ limits, rules, behavior }),
  };
}

export function shrinkBelow(usedPercent: number): VolumePolicySpec["rules"][number] {
  const when = `volume.usedRatioMax('3s') < ${usedPercent / 100}`;
  return { name: `shrink-below-${usedPercent}`, action: "Shrink", when, for: "1s", targetUsed: "50%" };
}
