import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { parse } from "yaml";
import { type VolumePolicy, volumePolicySpec } from "../../../../src/contracts/kinds/volume-policy.ts";
import { compilePolicy } from "../../../../src/policy-engine/policies/compile-policy.ts";
import { playScenario, type ScenarioFile } from "../../../builders/scenario.ts";

// Generous: thousands of decisions are made on a machine that does other things, too.
const FOLDER = new URL("../../../../policies/", import.meta.url);
const SCENARIOS = ".scenarios.yaml";

const read = <T>(file: string): T => parse(readFileSync(new URL(file, FOLDER), "utf8")) as T;
const files = readdirSync(FOLDER).filter((file) => file.endsWith(".yaml") && file !== "kustomization.yaml");
const policies = files.filter((file) => !file.endsWith(SCENARIOS)).map((file) => file.replace(".yaml", ""));

describe.each(policies)("the ready-made policy %s", (name) => {
  const policy = read<VolumePolicy>(`${name}.yaml`);

  it("has exactly the fields that the kind knows, and compiles", () => {
    expect(volumePolicySpec.strict().parse(policy.spec)).toEqual(policy.spec);
    expect(compilePolicy(policy).problems).toEqual([]);
    expect(policy.metadata.name).toBe(name);
  });

  const file = read<ScenarioFile>(`${name}${SCENARIOS}`);
  it.each(file.scenarios.map((scenario) => [scenario.name, scenario] as const))("%s", (_name, scenario) => {
    const expected = scenario.steps.map(({ size: _size, used: _used, ...decided }) => decided);
    expect(playScenario(file, scenario, compilePolicy(policy))).toMatchObject(expected);
  });
});
