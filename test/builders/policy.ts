// Policies as people write them, and compiled: "extend at 80%, shrink below 30%" unless a test says otherwise.
import type {
  ClusterVolumePolicy,
  ClusterVolumePolicySpec,
  VolumePolicy,
  VolumePolicySpec,
} from "../../src/contracts/kinds/volume-policy.ts";
import { compilePolicy } from "../../src/policy-engine/policies/compile-policy.ts";
import type { CompiledPolicy } from "../../src/policy-engine/policies/compiled-policy.ts";

export const EXTEND_AT_80 = {
  name: "extend-at-80",
  action: "Extend",
  when: "volume.usedRatio >= 0.8",
  targetUsed: "60%",
} as const;
export const SHRINK_BELOW_30 = {
  name: "shrink-below-30",
  action: "Shrink",
  when: "volume.usedRatioMax('24h') < 0.3",
  targetUsed: "50%",
} as const;

interface PolicyMetadata {
  name?: string;
  namespace?: string;
  creationTimestamp?: string;
}

export function aPolicySpec(spec: Partial<VolumePolicySpec> = {}): VolumePolicySpec {
  return {
    mode: { extend: "Enforce", shrink: "Enforce" },
    limits: { min: "1Gi", max: "100Gi" },
    rules: [EXTEND_AT_80, SHRINK_BELOW_30],
    ...spec,
  };
}

export function aVolumePolicy(spec: Partial<VolumePolicySpec> = {}, metadata: PolicyMetadata = {}): VolumePolicy {
  return {
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "VolumePolicy",
    metadata: { name: "default", namespace: "shop", creationTimestamp: "2026-01-01T00:00:00Z", ...metadata },
    spec: aPolicySpec(spec),
  };
}

export function aClusterPolicy(
  spec: Partial<ClusterVolumePolicySpec> = {},
  metadata: PolicyMetadata = {},
): ClusterVolumePolicy {
  return {
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "ClusterVolumePolicy",
    metadata: { name: "cluster", creationTimestamp: "2026-01-01T00:00:00Z", ...metadata },
    spec: { ...aPolicySpec(), ...spec },
  };
}

/** Compiled; a test that wants an invalid one says so by its problems. */
export function aPolicy(spec: Partial<VolumePolicySpec> = {}): CompiledPolicy {
  return compilePolicy(aVolumePolicy(spec));
}
