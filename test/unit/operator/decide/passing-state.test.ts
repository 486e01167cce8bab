import { expect, it } from "@jest/globals";
import type { Filesystem } from "../../../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayoutStatus, LastOperation } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import type { Condition } from "../../../../src/contracts/schema/schema.ts";
import { silentForMs } from "../../../../src/operator/decide/decide-status.ts";
import { buildFilesystem, buildLayout } from "../../../builders/volume.ts";

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
  readonly layout?: FilesystemLayoutStatus;
}

const LAST: LastOperation = {
  ...{ kind: "Extend", from: "2Gi", to: "3Gi", epoch: 1, startedAt: "2030-01-01T00:00:00Z" },
  ...{ outcome: "Failed", reached: "2Gi", endedAt: "2030-01-01T00:00:01Z" },
};

function unreported({ wanted = { Reconciling: "True" }, told, capacity = "2Gi", generation = 2, ...more }: Case) {
  const { ageMs = 1000, layout = {} } = more;
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
  return silentForMs(filesystem, buildLayout({ spec: { target }, status: layout }), status, DECIDED_MS + ageMs);
}

it("what has just begun is not told yet", () => {
  expect(unreported({})).toBe(2000);
});

it("what is between two of its steps is not told yet", () => {
  expect(unreported({ wanted: {} })).toBe(2000);
});

it.each<[string, Case]>([
  ["that takes long", { ageMs: 3000 }],
  ["of a time that is yet to come", { ageMs: -1 }],
  ["whose Filesystem seems settled otherwise", { generation: 3 }],
  ["that has ended", { wanted: {}, layout: { lastOperation: { ...LAST, decidedAt: target.decidedAt } } }],
  [
    "that has ended before an emergency",
    { wanted: {}, layout: { endedDecidedAt: target.decidedAt, lastOperation: LAST } },
  ],
  ["that is stalled", { wanted: { Reconciling: "True", Stalled: "True" } }],
  ["that is not ready any more", { wanted: { Reconciling: "True", Ready: "False" } }],
  ["of another size", { capacity: "3Gi" }],
  ["that was under way before", { told: { Reconciling: "True" } }],
  ["that is not under way any more", { told: { Reconciling: "True" }, wanted: {} }],
])("what is told at once is a state %s", (_what, one) => {
  expect(unreported(one)).toBeUndefined();
});
