// What the ClusterVolumePolicies say of one device class' thin pools: of those that name it the first, by priority and then by age, as
// everywhere. Pure; what got past the schema may have any text.
import type { ThinPoolRule } from "../../api/thin-pool-rule.ts";
import type { ClusterVolumePolicy } from "../../api/volume-policy.ts";
import { parseQuantity, QuantityError } from "../../units/quantity.ts";
import { PercentError, parsePercent } from "../../units/ratio.ts";
import type { ThinPoolGrowth } from "./decide-thin-pool.ts";

const DEFAULT_EXTEND_AT = "80%";
const DEFAULT_BY = "20%";

/** A rule that cannot be read: nobody guesses what was meant. */
export interface UnreadableGrowth {
  readonly problem: string;
}

/** Undefined: no policy names the class. */
export function readGrowth(
  policies: readonly ClusterVolumePolicy[],
  deviceClass: string,
): ThinPoolGrowth | UnreadableGrowth | undefined {
  const naming = policies.flatMap((policy) => {
    const rule = policy.spec.thinPools?.find((one) => one.deviceClass === deviceClass);
    return rule === undefined ? [] : [{ policy, rule }];
  });
  const [first] = naming.sort((a, b) => byPrecedence(a.policy, b.policy));
  return first && growthOf(first.policy, first.rule);
}

function growthOf(policy: ClusterVolumePolicy, rule: ThinPoolRule): ThinPoolGrowth | UnreadableGrowth {
  const name = `ClusterVolumePolicy ${policy.metadata.name}`;
  const by = rule.by ?? DEFAULT_BY;
  try {
    return {
      policy: name,
      suspended: policy.spec.suspend === true,
      extendAtRatio: parsePercent(rule.extendAt ?? DEFAULT_EXTEND_AT),
      by: by.endsWith("%") ? { kind: "ratio", ratio: parsePercent(by) } : { kind: "bytes", bytes: parseQuantity(by) },
      maxBytes: rule.max === undefined ? undefined : parseQuantity(rule.max),
    };
  } catch (error) {
    if (!(error instanceof PercentError || error instanceof QuantityError)) throw error;
    return { problem: `${name}, thinPools of ${rule.deviceClass}: ${error.message}` };
  }
}

function byPrecedence(a: ClusterVolumePolicy, b: ClusterVolumePolicy): number {
  return (
    (b.spec.priority ?? 0) - (a.spec.priority ?? 0) ||
    Date.parse(a.metadata.creationTimestamp ?? "") - Date.parse(b.metadata.creationTimestamp ?? "") ||
    (a.metadata.name < b.metadata.name ? -1 : 1)
  );
}
