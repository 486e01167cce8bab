import { expect, it } from "@jest/globals";
import type { Filesystem } from "../../../src/api/filesystem.ts";
import type { Condition } from "../../../src/api/schema.ts";
import { untoldForMs } from "../../../src/operator/volume/passing-state.ts";
import { buildFilesystem, buildLayout } from "../../builders/volume.ts";

const DECIDED_MS = Date.parse("2030-01-01T00:00:00Z");
const target = { size: "3Gi", from: "2Gi", epoch: 1, decidedAt: "2030-01-01T00:00:00Z" };

function conditions(
  states: Partial<Record<"Ready" | "Reconciling" | "Stalled", Condition["status"]>> = {},
): Condition[] {
  const all = { Ready: "True", Reconciling: "False", Stalled: "False", ...states } as const;
  return Object.entries(all).map(([type, status]) => ({
    type,
    status,
    reason: "Ready",
    message: "",
    lastTransitionTime: "2029-01-01T00:00:00Z",
  }));
}

interface Case {
  readonly wanted?: Parameters<typeof conditions>[0];
  readonly told?: Parameters<typeof conditions>[0];
  readonly capacity?: string;
  readonly generation?: number;
  readonly ageMs?: number;
}

function untold({ wanted = { Reconciling: "True" }, told, capacity = "2Gi", generation = 2, ageMs = 1000 }: Case) {
  const built = buildFilesystem();
  const filesystem: Filesystem = {
    ...built,
    metadata: { ...built.metadata, generation: 3 },
    status: { observedGeneration: generation, capacity: "2Gi", conditions: conditions(told) },
  };
  const status = {
    apiVersion: "",
    kind: "",
    metadata: { name: "" },
    status: { capacity, conditions: conditions(wanted) },
  };
  return untoldForMs(filesystem, buildLayout({ spec: { target } }), status, DECIDED_MS + ageMs);
}

it("what has just begun is not told yet", () => {
  expect(untold({})).toBe(2000);
});

it.each<[string, Case]>([
  ["that takes long", { ageMs: 3000 }],
  ["of a time that is yet to come", { ageMs: -1 }],
  ["whose Filesystem seems settled otherwise", { generation: 3 }],
  ["that has come", { wanted: {} }],
  ["that is stalled", { wanted: { Reconciling: "True", Stalled: "True" } }],
  ["that is not ready any more", { wanted: { Reconciling: "True", Ready: "False" } }],
  ["of another size", { capacity: "3Gi" }],
  ["that was under way before", { told: { Reconciling: "True" } }],
])("what is told at once is a state %s", (_what, one) => {
  expect(untold(one)).toBeUndefined();
});
