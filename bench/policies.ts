// What one namespace's editor can do to policy-engine and operator by policies alone: as many as there may be of the worst that the API
// server takes. The bar: both ready within 60 s, within 1 GiB, and another namespace is decided throughout.

import { type OfBudget } from "../test/builders/worst-policy.ts";
import { attackWithPolicies } from "../test/harness/policy-attack.ts";
import { type Benchmark, quantile, round, settingFromEnvironment } from "./benchmark.ts";

const POLICIES = 1000;
const VOLUMES = 31;

export const policiesBenchmark: Benchmark = async (say) => {
  const policies = settingFromEnvironment("POLICIES", POLICIES);
  const figures: Record<string, number> = { policies };
  for (const ofBudget of ["at", "over"] satisfies OfBudget[]) {
    const seen = await attackWithPolicies({ policies, ofBudget, volumes: VOLUMES, awaitsStatuses: false, say });
    const found = {
      engineReadyS: round(seen.engineReadyMs / 1000, 1),
      operatorReadyS: round(seen.operatorReadyMs / 1000, 1),
      engineCpuS: round(seen.engineCpuMs / 1000, 1),
      operatorCpuS: round(seen.operatorCpuMs / 1000, 1),
      longestProbeMs: round(seen.longestProbeMs, 0),
      firstDecisionS: round(seen.firstDecisionMs / 1000, 1),
      decisionP50Ms: round(quantile(seen.decisionsMs, 0.5), 0),
      decisionMaxMs: round(Math.max(...seen.decisionsMs), 0),
      changesPerSecond: round(seen.changesPerSecond, 1),
      engineMiB: round(seen.engineMiB, 0),
      operatorMiB: round(seen.operatorMiB, 0),
    };
    say(`each policy ${ofBudget} its own budget: ${JSON.stringify(found)}`);
    for (const [name, figure] of Object.entries(found)) figures[`${name}.${ofBudget}`] = figure;
  }
  return figures;
};
