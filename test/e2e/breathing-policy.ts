// A VolumePolicy for the suites of a cluster: under it volumes grow as they fill and shrink as they empty, within seconds.
export const BREATHING = "breathing";
export const EXTEND_AT_80 = {
  name: "extend-at-80",
  action: "Extend",
  when: "volume.usedRatio >= 0.8",
  targetUsed: "60%",
} as const;

export interface BreathingLimits {
  readonly min: string;
  readonly max: string;
  readonly minAvailable: string;
}

export function breathingPolicy(
  limits: BreathingLimits,
  rules: readonly object[] = [EXTEND_AT_80, shrinkBelow(30)],
): object {
  return {
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "VolumePolicy",
    metadata: { name: BREATHING },
    spec: {
      limits,
      mode: { extend: "Enforce", shrink: "Enforce" },
      rules,
      behavior: { extend: { cooldown: "0s", minStep: "256Mi" }, shrink: { cooldown: "2s", minStep: "256Mi" } },
    },
  };
}

export function shrinkBelow(usedPercent: number): object {
  const when = `volume.usedRatioMax('3s') < ${usedPercent / 100}`;
  return { name: `shrink-below-${usedPercent}`, action: "Shrink", when, for: "1s", targetUsed: "50%" };
}
