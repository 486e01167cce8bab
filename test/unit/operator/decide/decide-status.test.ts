import { describe, expect, it } from "@jest/globals";
import type { FilesystemStatus } from "../../../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import type { Condition } from "../../../../src/contracts/schema/schema.ts";
import { decideStatus, type StatusFacts, unfitShown } from "../../../../src/operator/decide/decide-status.ts";
import { buildSpan } from "../../../builders/span.ts";
import { buildFilesystem, buildLayout, HANDLE, NODE, reported } from "../../../builders/volume.ts";

const NOW_MS = Date.parse("2030-01-01T00:00:10.500Z");
const NOW = "2030-01-01T00:00:10Z";
const BEFORE = "2029-01-01T00:00:00Z";

function statusOf(layout: FilesystemLayout | undefined, more: Partial<StatusFacts> = {}): FilesystemStatus {
  const facts = {
    handle: HANDLE,
    filesystem: buildFilesystem(),
    layout,
    missing: [],
    refusal: undefined,
    members: undefined,
    noGrowth: undefined,
    lostNode: undefined,
    consolidation: undefined,
    unfit: undefined,
    ...more,
  };
  return decideStatus(facts, NOW_MS)["status"] as FilesystemStatus;
}

const NO_GROWTH = { className: "gp3", failedAtMs: NOW_MS - 1000, untilMs: NOW_MS + 1000, failures: 1 };

it("says which class does not grow its members, and until when members are added instead; all else is well", () => {
  const status = statusOf(buildSpan({ sizes: ["1Gi"] }), { noGrowth: NO_GROWTH });
  expect(summary(status)).toMatchObject({ Reconciling: "False GrowthFailed", Stalled: "False Ready" });
  expect(conditionOf(status, "Reconciling")?.message).toBe(
    "class gp3 expanded a member and did not grow its device (2030-01-01T00:00:09Z): members are added instead until 2030-01-01T00:00:11Z",
  );
});

const conditionOf = (status: FilesystemStatus, type: string): Condition | undefined =>
  status.conditions?.find((condition) => condition.type === type);
const summary = (status: FilesystemStatus) =>
  Object.fromEntries((status.conditions ?? []).map((one) => [one.type, `${one.status} ${one.reason}`]));

const nodeSays = (type: string, status: "True" | "False", reason: string): Condition => ({
  type,
  status,
  reason,
  message: `the node: ${reason}`,
  lastTransitionTime: BEFORE,
});

const withConditions = (layout: FilesystemLayout, ...conditions: Condition[]): FilesystemLayout => ({
  ...layout,
  status: { ...layout.status, conditions },
});

const saying = (layout: FilesystemLayout, condition: Condition): FilesystemLayout => ({
  ...layout,
  status: { ...layout.status, conditions: [condition] },
});
const withoutMember = (layout: FilesystemLayout, lost: string): FilesystemLayout => ({
  ...layout,
  spec: { ...layout.spec, members: layout.spec.members?.filter(({ name }) => name !== lost) },
});

it("says of a filesystem that no node can take that it is Stalled, unless something worse is wrong, and reads that again", () => {
  const unfit = "pod shop/late waits: no node has the slots";
  const status = statusOf(buildLayout({ status: { mounted: false } }), { unfit });
  expect(conditionOf(status, "Stalled")).toMatchObject({
    status: "True",
    reason: "InsufficientAttachSlots",
    message: unfit,
  });
  expect(unfitShown({ ...buildFilesystem(), status })).toBe(unfit);
  const worse = statusOf(buildLayout({ status: { mounted: false } }), { unfit, lostNode: "node n1 is gone" });
  expect(summary(worse)["Stalled"]).toBe("True NodeLost");
  expect(unfitShown({ ...buildFilesystem(), status: worse })).toBeUndefined();
});

describe("a Filesystem's status", () => {
  it("shows handle, node, and the members' sizes added up", () => {
    const members = ["1Gi", "512Mi"].map((size, i) => ({ name: `m${i}`, size, state: "Present" as const }));
    expect(statusOf(buildLayout({ status: { nodeName: NODE, members } }))).toMatchObject({
      capacity: "1536Mi",
      volumeHandle: HANDLE,
      nodeName: NODE,
      observedGeneration: 3,
    });
  });

  const cases: [string, FilesystemLayout | undefined, Partial<StatusFacts>, Record<string, string>][] = [
    [
      "waits for the node before its first report",
      buildLayout(),
      {},
      { Ready: "False WaitingForNode", Reconciling: "True WaitingForNode", Stalled: "False WaitingForNode" },
    ],
    [
      "is Ready when the node reports a size",
      buildLayout({ status: reported("1Gi") }),
      {},
      { Ready: "True Ready", Reconciling: "False Ready", Stalled: "False Ready" },
    ],
    [
      "is Reconciling while an operation runs",
      buildLayout({
        status: reported("1Gi", {
          operation: { kind: "Extend", from: "1Gi", to: "2Gi", step: "grow", epoch: 1, startedAt: BEFORE },
        }),
      }),
      {},
      { Ready: "True Ready", Reconciling: "True OperationRunning", Stalled: "False Ready" },
    ],
    [
      "passes on what the node says",
      buildLayout({
        status: reported("1Gi", {
          conditions: [nodeSays("Ready", "False", "ReadOnly"), nodeSays("Stalled", "True", "ReadOnly")],
        }),
      }),
      {},
      { Ready: "False ReadOnly", Reconciling: "False ReadOnly", Stalled: "True ReadOnly" },
    ],
    [
      "is Stalled when the node misses a member",
      buildLayout({ status: { nodeName: NODE, members: [{ name: "m0", size: "1Gi", state: "Missing" }] } }),
      {},
      { Ready: "False MembersMissing", Reconciling: "False MembersMissing", Stalled: "True MembersMissing" },
    ],
    [
      "is Stalled, not broken, when a deposed leader wrote",
      buildLayout({ status: reported("1Gi") }),
      { refusal: { reason: "StaleEpoch", message: "epoch 3" } },
      { Ready: "True Ready", Reconciling: "False Ready", Stalled: "True StaleEpoch" },
    ],
    [
      "waits for a pod before a span's first use",
      buildLayout({ spec: { backend: "span", nodeName: undefined } }),
      {},
      { Ready: "False WaitingForNode", Reconciling: "False WaitingForNode", Stalled: "False WaitingForNode" },
    ],
    [
      "is Reconciling while a member is on its way",
      buildSpan({ sizes: ["1Gi", "1Gi"], reported: { m1: null } }),
      { members: { waiting: ["member m1: to be attached"], problem: undefined, spare: undefined } },
      { Ready: "True Ready", Reconciling: "True WaitingForMember", Stalled: "False Ready" },
    ],
    [
      "is not Ready for its first member, which waits for its driver, and not for a pod",
      { ...buildSpan({ sizes: ["1Gi"] }), status: undefined },
      { members: { waiting: ["member m0: claim c is not bound yet"], problem: undefined, spare: undefined } },
      { Ready: "False WaitingForMember", Reconciling: "True WaitingForMember", Stalled: "False WaitingForMember" },
    ],
    [
      "is Stalled when a member cannot be had",
      buildSpan({ sizes: ["1Gi"] }),
      { members: { waiting: [], problem: { reason: "MemberFailed", message: "exceeded quota" }, spare: undefined } },
      { Ready: "True Ready", Reconciling: "False Ready", Stalled: "True MemberFailed" },
    ],
    [
      "is Stalled when its filesystem has a member that its layout has lost",
      withoutMember(buildSpan({ sizes: ["1Gi", "1Gi"] }), "m1"),
      {},
      { Ready: "True Ready", Reconciling: "False Ready", Stalled: "True MembersMissing" },
    ],
    [
      "is Stalled for the member that its layout has lost, whatever else its node has against the layout",
      withoutMember(saying(buildSpan({ sizes: ["1Gi", "1Gi"] }), nodeSays("Stalled", "True", "StaleEpoch")), "m1"),
      {},
      { Ready: "True Ready", Reconciling: "False Ready", Stalled: "True MembersMissing" },
    ],
    [
      "is fine without a spare, and says why there is none",
      buildSpan({ sizes: ["1Gi"] }),
      { members: { waiting: [], problem: undefined, spare: "there is no spare member: exceeded quota" } },
      { Ready: "True Ready", Reconciling: "False SpareMissing", Stalled: "False Ready" },
    ],
    [
      "says why its node has no spare",
      withConditions(buildSpan({ sizes: ["1Gi"] }), nodeSays("Reconciling", "False", "SpareMissing")),
      {},
      { Ready: "True Ready", Reconciling: "False SpareMissing", Stalled: "False Ready" },
    ],
    [
      "is Stalled when no member more may be made",
      buildSpan({ sizes: ["1Gi"] }),
      { refusal: { reason: "MemberLimitReached", message: "4 of 4" } },
      { Ready: "True Ready", Reconciling: "False Ready", Stalled: "True MemberLimitReached" },
    ],
    [
      "holds, and is not Stalled, when a shrink fits no member",
      buildSpan({ sizes: ["1Gi"] }),
      { refusal: { reason: "ShrinkFloorReached", message: "one member" } },
      { Ready: "True Ready", Reconciling: "False ShrinkFloorReached", Stalled: "False Ready" },
    ],
    [
      "holds, and is not Stalled, while a quota lets it have no member",
      buildSpan({ sizes: ["1Gi"] }),
      { refusal: { reason: "QuotaExceeded", message: "4 GiB" } },
      { Ready: "True Ready", Reconciling: "False QuotaExceeded", Stalled: "False Ready" },
    ],
    [
      "is Stalled when the layout cannot be rebuilt",
      undefined,
      { missing: ["claimRef"] },
      { Ready: "False MembersMissing", Reconciling: "False MembersMissing", Stalled: "True MembersMissing" },
    ],
  ];
  it.each(cases)("%s", (_name, layout, more, expected) => {
    expect(summary(statusOf(layout, more))).toEqual(expected);
  });

  it("keeps the last known capacity while there is none to report, and never says 0", () => {
    const filesystem = buildFilesystem({ status: { capacity: "3Gi" } });
    expect(statusOf(buildLayout(), { filesystem }).capacity).toBe("3Gi");
    expect(statusOf(buildLayout()).capacity).toBeUndefined();
  });

  it("names the sizes and the step of a running operation", () => {
    const operation = { kind: "Shrink" as const, from: "2Gi", to: "1Gi", step: "resize", epoch: 1, startedAt: BEFORE };
    const status = statusOf(buildLayout({ status: reported("2Gi", { operation }) }));
    expect(conditionOf(status, "Reconciling")?.message).toBe("Shrink from 2Gi to 1Gi: resize");
  });

  it("moves lastTransitionTime with a condition's status only, not with its reason", () => {
    const filesystem = buildFilesystem({
      status: {
        conditions: [nodeSays("Ready", "True", "OperationRunning"), nodeSays("Reconciling", "True", "Provisioning")],
      },
    });
    const status = statusOf(buildLayout({ status: reported("1Gi") }), { filesystem });
    expect(conditionOf(status, "Ready")).toMatchObject({ status: "True", reason: "Ready", lastTransitionTime: BEFORE });
    expect(conditionOf(status, "Reconciling")).toMatchObject({ status: "False", lastTransitionTime: NOW });
  });
});

it("passes on which volume the member is that a layout has lost, and nothing else that its node says", () => {
  const restored = withoutMember(buildSpan({ sizes: ["1Gi", "1Gi"] }), "m1");
  const messageOf = (reason: string) =>
    conditionOf(statusOf(saying(restored, nodeSays("Stalled", "True", reason))), "Stalled")?.message;
  expect(messageOf("MembersMissing")).toBe("add m1 to spec.members: the node: MembersMissing");
  expect(messageOf("StaleEpoch")).toMatch(/^add m1 to spec.members: .* resized or moved without$/);
  const unmounted = { ...restored, status: { ...restored.status, mounted: false } };
  const said = conditionOf(statusOf(saying(unmounted, nodeSays("Stalled", "True", "MembersMissing"))), "Stalled");
  expect(said?.message).toMatch(/^add m1 to spec.members: the node: /);
});

describe("of a volume whose only node is lost", () => {
  const lostNode = "node node-1 is out of service";

  it("the Filesystem is not Ready and Stalled as NodeLost, whatever its node said last", () => {
    const ready: Condition = {
      type: "Ready",
      status: "True",
      reason: "Ready",
      message: "",
      lastTransitionTime: BEFORE,
    };
    const layout = buildLayout({ status: reported("2Gi", { conditions: [ready] }) });
    const status = statusOf(layout, { lostNode });
    expect(summary(status)).toEqual({
      Ready: "False NodeLost",
      Reconciling: "False NodeLost",
      Stalled: "True NodeLost",
    });
    expect(conditionOf(status, "Stalled")?.message).toContain(lostNode);
    expect(status.capacity).toBe("2Gi");
  });

  it("it is as before when the node is back", () => {
    const layout = buildLayout({ status: reported("2Gi") });
    expect(summary(statusOf(layout, { lostNode: undefined }))).toMatchObject({ Ready: "True Ready" });
  });
});
