// The edit of the policy's file while everything runs: as a commit in Git would arrive, applied and measured until the engine
// says that it decides by it.
import { writeFile } from "node:fs/promises";
import { stringify } from "yaml";
import { applyPolicy, observedGeneration, type PolicyDocument } from "./demo-claim.ts";
import { type Stage, tell, until } from "./stage.ts";

const EXTEND_RULE = "extend-at-80";
const NEW_TARGET_USED = "55%";
const EFFECT_LIMIT_MS = 10_000;

/** Edits, applies, and writes into the log how long it took to take effect. */
export async function editPolicy(stage: Stage): Promise<void> {
  const { client, policy, policyFile } = stage;
  const edited = withTargetUsed(policy, NEW_TARGET_USED);
  const before = policy.spec.rules.find(({ name }) => name === EXTEND_RULE)?.targetUsed;
  await writeFile(policyFile, stringify(edited));
  const startMs = performance.now();
  const generation = await applyPolicy(client, edited);
  await until("the edited policy takes effect", EFFECT_LIMIT_MS, stage.ending, async () => {
    return ((await observedGeneration(client, edited)) ?? 0) >= generation;
  });
  const tookMs = performance.now() - startMs;
  stage.log.policyEditMs = tookMs;
  const text = `The policy is edited, ${EXTEND_RULE}: targetUsed ${before} → ${NEW_TARGET_USED}; in effect after ${tookMs.toFixed(0)} ms`;
  tell(stage, "act", text, "policy edited");
}

/** The same policy with another size asked for by its Extend rule. */
function withTargetUsed(policy: PolicyDocument, targetUsed: string): PolicyDocument {
  const rules = policy.spec.rules.map((rule) => (rule.name === EXTEND_RULE ? { ...rule, targetUsed } : rule));
  return { ...policy, spec: { ...policy.spec, rules } };
}
