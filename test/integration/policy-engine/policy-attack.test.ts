// Eight such policies once kept both processes from ever being ready; the benchmark `policies` makes a thousand.
import { expect, it } from "@jest/globals";
import type { VolumePolicy } from "../../../src/contracts/kinds/volume-policy.ts";
import { attackWithPolicies } from "../../harness/policy-attack.ts";
import { describeReal } from "../../harness/real-parts.ts";

const POLICIES = 40;
const GIB_IN_MIB = 1024;

describeReal("one namespace's editor, who writes the worst policies that are taken", ["bundle"], () => {
  it.each([
    // So many characters and ranges are in a namespace's budget.
    ["each as large as it may be", "at", 10, "the policies of namespace team up to worst-"],
    ["each over its own budget by what is compiled last", "over", 0, "the patterns of this policy hold up to"],
  ] as const)(
    "keeps neither engine nor operator from starting, nor other namespaces from being decided: %s",
    async (_sentence, ofBudget, inForce, message) => {
      const seen = await attackWithPolicies({
        policies: POLICIES,
        ofBudget,
        volumes: 4,
        awaitsStatuses: true,
        say: () => {},
      });
      expect(Math.max(seen.engineReadyMs, seen.operatorReadyMs)).toBeLessThan(60_000);
      expect(Math.max(seen.engineMiB, seen.operatorMiB)).toBeLessThan(GIB_IN_MIB);
      expect(Math.max(...seen.decisionsMs)).toBeLessThan(30_000);
      expect(seen.policies.filter((policy) => readyOf(policy)?.status === "True")).toHaveLength(inForce);
      const messages = seen.policies.map((policy) => readyOf(policy)?.message);
      expect(messages).toContainEqual(expect.stringContaining(message));
      expect(messages).toContainEqual(expect.stringContaining("it and all newer ones are refused"));
    },
    300_000,
  );
});

function readyOf({ status }: VolumePolicy) {
  return status?.conditions?.find(({ type }) => type === "Ready");
}
