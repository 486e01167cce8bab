// What people read in conditions and Events is short, also where names are long: at most 160 characters, through the functions that word it.
import { describe, expect, it } from "@jest/globals";
import { recordWithLayout } from "../../src/agent/gather/layout-record.ts";
import { layoutStatus } from "../../src/agent/report/layout-status.ts";
import { decideThinPool } from "../../src/agent/thin-pool/decide-thin-pool.ts";
import type { FilesystemStatus } from "../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout, LastOperation, MemberSpec } from "../../src/contracts/kinds/filesystem-layout.ts";
import type { PersistentVolumeClaim, StorageClass } from "../../src/contracts/kubernetes/resources.ts";
import { LOCAL_DRIVER, MEMBER_NAMESPACE, SPAN_DRIVER } from "../../src/contracts/names.ts";
import { MESSAGE_CHARACTERS } from "../../src/contracts/printable.ts";
import { GIB } from "../../src/contracts/quantities/quantity.ts";
import type { Condition } from "../../src/contracts/schema/schema.ts";
import { departureMessage } from "../../src/operator/apply/reconcile-members.ts";
import { classProblem } from "../../src/operator/capacity/decide-capacity.ts";
import { HOME_GUARDS, homeProblem, missingRight } from "../../src/operator/decide/decide-home.ts";
import { decideMember, type SpanMemberFacts } from "../../src/operator/decide/decide-member.ts";
import { decideStatus, type StatusFacts } from "../../src/operator/decide/decide-status.ts";
import { refusalMessage } from "../../src/operator/decide/members/decide-member-state.ts";
import { quotaMessage } from "../../src/operator/decide/members/member-bytes.ts";
import { decideClaimDeletion } from "../../src/operator/node-loss/decide-node-loss.ts";
import { missedPlacement } from "../../src/operator/webhook/decide-placement.ts";
import { decide } from "../../src/policy-engine/decide/decide.ts";
import type { Facts } from "../../src/policy-engine/facts/facts.ts";
import { consolidationFacts } from "../../src/policy-engine/gather/gather-facts.ts";
import { NO_CEILINGS } from "../../src/policy-engine/policies/ceilings.ts";
import { compilePolicy } from "../../src/policy-engine/policies/compile-policy.ts";
import type { CompiledPolicy } from "../../src/policy-engine/policies/compiled-policy.ts";
import { createNodeClocks } from "../../src/policy-engine/samples/node-clocks.ts";
import { anyCeilings, mixedFacts, mixedPolicy } from "../builders/any-facts.ts";
import { buildClaim } from "../builders/claim.ts";
import { aVolume, NOW_MS } from "../builders/facts.ts";
import { buildLayout as buildLoopLayout } from "../builders/filesystem-layout.ts";
import { buildVolumeState, type VolumeChange } from "../builders/node-volume.ts";
import { aVolumePolicy, EXTEND_AT_80 } from "../builders/policy.ts";
import { buildSpan } from "../builders/span.ts";
import { buildFilesystem, HANDLE, VOLUME_UID } from "../builders/volume.ts";
import { createRecordingLog } from "../fakes/recording-log.ts";
import { property } from "../harness/property.ts";

const NAMESPACE = "team-payments-prod-1";
const NAME = "data-postgres-cluster-instance-0-replica";
const NODE = "ip-10-20-30-40.eu-central-1.compute.inte";
const CLASS = "gp3-encrypted-delete";
const RULE = "extend-when-almost-full";
const DRIVER = "disk.csi.example.com";
const MEMBER_CLAIM = `${HANDLE}-m1`;
const SIGNATURE = `its device /dev/disk/by-id/nvme-1 carries a crypto_LUKS signature (UUID ${VOLUME_UID})`;

const member: MemberSpec = {
  name: "m1",
  size: "1023Gi",
  state: "Present",
  refused: SIGNATURE,
  source: { claim: { name: MEMBER_CLAIM, uid: VOLUME_UID, driver: DRIVER, volumeHandle: "vol-0123456789abcdef0" } },
};
const condition = (type: string, reason: string, message: string): Condition => ({
  type,
  status: "True",
  reason,
  message,
  lastTransitionTime: "2030-01-01T00:00:00Z",
});

function expectShort(messages: readonly (string | undefined)[]): void {
  expect(messages.length).toBeGreaterThan(0);
  expect(messages.filter((message) => message === undefined || message === "")).toEqual([]);
  expect(messages.filter((message = "") => message.length > MESSAGE_CHARACTERS)).toEqual([]);
}

describe("names are as long as they ordinarily are", () => {
  it("in all messages of this file", () => {
    expect([NAMESPACE, NAME, NODE, CLASS, HANDLE].map(({ length }) => length)).toEqual([20, 40, 40, 20, 39]);
  });
});

/** What a plan takes over of a pod that lacks attach slots. */
function becauseOfPod(): string {
  const message = `pod ${NAME} lacks 2 attach slots of ${DRIVER} on node ${NODE}: m1 merged into m0 would free 1; 24 of 25 used`;
  const need = { pod: `${NAMESPACE}/${NAME}`, node: NODE, members: 1, growth: "1Gi", message };
  const facts = consolidationFacts(
    buildFilesystem({ status: { consolidation: need } }),
    buildSpan({ sizes: ["1Gi"] }),
    GIB,
    NOW_MS,
  );
  return facts?.because ?? "";
}

/** The same, named at length. */
function named(facts: Facts, compiled: CompiledPolicy): [Facts, CompiledPolicy] {
  const { claim, node, filesystem } = facts;
  const consolidation = filesystem.consolidation && { ...filesystem.consolidation, because: becauseOfPod() };
  const long: Facts = {
    ...facts,
    claim: { ...claim, namespace: NAMESPACE, name: NAME, storageClassName: CLASS },
    node: node && { ...node, name: NODE },
    filesystem: { ...filesystem, consolidation },
  };
  const rules = compiled.rules.map((rule) => ({ ...rule, name: RULE }));
  return [long, { ...compiled, key: `${NAMESPACE}/${NAME}`, rules }];
}

describe("what the policy-engine says of a plan", () => {
  property(
    "is short, whatever the facts and the policy",
    { runs: 2000, reaches: { change: 0.1, hold: 0.2 } },
    [mixedFacts, mixedPolicy, anyCeilings],
    (reach, facts, compiled, ceilings) => {
      const plan = decide(...named(facts, compiled), ceilings);
      reach(plan.kind === "hold" ? "hold" : "change");
      expectShort([plan.message]);
    },
  );

  const longPolicy = compilePolicy(
    aVolumePolicy({ rules: [{ ...EXTEND_AT_80, name: RULE }] }, { namespace: NAMESPACE, name: NAME }),
  );
  const ended = (outcome: "Failed" | "FloorReached" | "Cancelled", reason: string) => ({
    kind: "Shrink" as const,
    outcome,
    reason,
    message: `btrfs balance on ${HANDLE} stopped: ${"a chunk cannot be relocated, ".repeat(8)}`,
    endedAtMs: NOW_MS - 1000,
    floorBytes: 3 * GIB,
  });

  it.each<[string, Facts]>([
    ["another driver's claim", aVolume({ claim: { backend: "claim" } })],
    [
      "another autoscaler",
      aVolume({ claim: { otherAutoscaler: "annotation trident.netapp.io/autogrowPolicy of its class" } }),
    ],
    ["a raw block volume", aVolume({ claim: { volumeMode: "Block" } })],
    ["an unmounted one", aVolume({ filesystem: { mounted: false } })],
    ["a node's clock", aVolume({ usedRatio: 0.05, reading: { aheadMs: 3_600_000 } })],
    ["stale metrics", aVolume({ usedRatio: 0.9, facts: { metricsStale: true } })],
    [
      "a shrink that failed",
      aVolume({ usedRatio: 0.05, filesystem: { lastOperation: ended("Failed", "ResizeFailed") } }),
    ],
    [
      "a shrink that a program stands against",
      aVolume({ usedRatio: 0.05, filesystem: { lastOperation: ended("Failed", "FilesystemBusy") } }),
    ],
    [
      "one that is not crash safe",
      aVolume({ usedRatio: 0.05, filesystem: { lastOperation: ended("Failed", "ShrinkNotCrashSafe") } }),
    ],
    [
      "one that was cancelled",
      aVolume({ usedRatio: 0.05, filesystem: { lastOperation: ended("Cancelled", "a writer needed the room") } }),
    ],
    [
      "a floor",
      aVolume({ usedRatio: 0.05, filesystem: { lastOperation: ended("FloorReached", "ShrinkFloorReached") } }),
    ],
  ])("is short for %s", (_what, facts) => {
    const [long] = named(facts, longPolicy);
    const suspended = { ...longPolicy, suspended: true };
    const field = "spec.rules[0].when";
    const invalid = { ...longPolicy, problems: [{ field, message: "found no matching overload. ".repeat(12) }] };
    expectShort([longPolicy, suspended, invalid].map((policy) => decide(long, policy, NO_CEILINGS).message));
  });

  it("is short for a node's clock, on the NodeStorage", () => {
    const said: string[] = [];
    const record = (_object: unknown, _type: string, _reason: string, message: string) => void said.push(message);
    const clocks = createNodeClocks({ record }, () => true, createRecordingLog().log);
    for (let second = 0; second < 60; second += 1)
      clocks.heard(NODE, NOW_MS + second * 1000 - 7_412_000, {
        nowMs: NOW_MS + second * 1000,
        monotonicMs: second * 1000,
      });
    expectShort(said);
  });
});

describe("what the operator says of a volume", () => {
  const messagesOf = (layout: FilesystemLayout | undefined, more: Partial<StatusFacts> = {}): string[] => {
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
    const { conditions = [] } = decideStatus(facts, NOW_MS)["status"] as FilesystemStatus;
    return conditions.map(({ message }) => message);
  };
  const four = buildSpan({ sizes: ["1023Gi", "1023Gi", "1023Gi", "1023Gi"] });
  const onNode: FilesystemLayout = { ...four, spec: { ...four.spec, nodeName: NODE } };
  const waiting = ["m0", "m1", "m2"].map(
    (name) => `member ${name}: claim ${MEMBER_CLAIM} of class ${CLASS} is not bound yet`,
  );
  const members = { waiting, problem: undefined, spare: `${MEMBER_CLAIM}: ${"no capacity is left, ".repeat(9)}` };
  const lacks = `spec.members lacks member m3 (volume vol-0123456789abcdef0 of driver ${DRIVER}, claim ${MEMBER_CLAIM})`;
  const refused: MemberSpec = { ...member, state: "Spare" };

  it.each<[string, FilesystemLayout | undefined, Partial<StatusFacts>]>([
    [
      "one that cannot be rebuilt",
      undefined,
      { missing: ["tidemark.dev/fsid", "tidemark.dev/volume-mode as in volumeMode"] },
    ],
    ["one whose node is lost", onNode, { lostNode: `node ${NODE} is out of service` }],
    ["one without a report", { ...onNode, status: undefined }, {}],
    [
      "members that are missing",
      {
        ...onNode,
        status: {
          ...onNode.status,
          members: ["m0", "m1", "m2", "m3"].map((name) => ({ name, size: "1Gi", state: "Missing" as const })),
        },
      },
      {},
    ],
    [
      "members that a layout has lost",
      {
        ...onNode,
        spec: { ...onNode.spec, members: onNode.spec.members?.slice(0, 3) ?? [] },
        status: { ...onNode.status, conditions: [condition("Stalled", "MembersMissing", lacks)] },
      },
      {},
    ],
    [
      "the same before its node says so",
      { ...onNode, spec: { ...onNode.spec, members: onNode.spec.members?.slice(0, 1) ?? [] } },
      {},
    ],
    ["members that are waited for", onNode, { members }],
    [
      "a target that waits for a member",
      onNode,
      { members: { ...members, waiting: [] }, refusal: { reason: "WaitingForMember", message: waiting[0] ?? "" } },
    ],
    [
      "members whose devices carry something",
      {
        ...onNode,
        spec: { ...onNode.spec, members: [...(onNode.spec.members ?? []), refused, { ...refused, name: "m5" }] },
      },
      {},
    ],
    [
      "a class that grows no member",
      onNode,
      { noGrowth: { className: CLASS, failedAtMs: NOW_MS, untilMs: NOW_MS + 1, failures: 1 } },
    ],
  ])("is short for %s", (_what, layout, more) => {
    expectShort(messagesOf(layout, more));
  });

  it("is short for one member, whatever it waits for", () => {
    const claim: PersistentVolumeClaim = {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { namespace: MEMBER_NAMESPACE, name: MEMBER_CLAIM, uid: VOLUME_UID },
      spec: { storageClassName: CLASS },
      status: { phase: "Pending" },
    };
    const place = {
      volumeUID: VOLUME_UID,
      nodeName: NODE,
      selectedNode: NODE,
      stranded: undefined,
      trouble: undefined,
      full: undefined,
      deviceBytes: undefined,
    };
    const facts: SpanMemberFacts = { member, claim, volume: undefined, attachments: [], attachRequired: true };
    const bound = {
      ...claim,
      spec: { ...claim.spec, volumeName: `pvc-${VOLUME_UID}` },
      status: { phase: "Bound" as const },
    };
    const recreated = { ...claim, metadata: { ...claim.metadata, uid: HANDLE } };
    const cases = [facts, { ...facts, claim: undefined }, { ...facts, claim: bound }, { ...facts, claim: recreated }];
    const plans = cases.map((one) => decideMember(one, place));
    expectShort(
      plans.flatMap(({ waiting: awaited, problem }) => [awaited, problem].filter((text) => text !== undefined)),
    );
  });

  it("is short in its Events", () => {
    const claim = buildClaim({ namespace: NAMESPACE, name: NAME });
    const annotations = { "tidemark.dev/on-node-loss": "Delete" };
    const deleted = buildClaim({ namespace: NAMESPACE, name: NAME, annotations });
    const nodes = new Set(Array.from({ length: 90 }, (_, index) => `${NODE}-${index}`));
    const what = `node ${NODE} is out of service`;
    expectShort([
      refusalMessage([member, { ...member, name: "m2" }]),
      departureMessage(member),
      ...[claim, deleted].map(
        (one) => decideClaimDeletion({ claim: one, what, knownNodes: nodes, lostNodes: nodes }).message,
      ),
      decideClaimDeletion({ claim: deleted, what, knownNodes: nodes, lostNodes: new Set([NODE]) }).message,
      quotaMessage(
        { className: CLASS, name: "storage-of-team-pay", limitBytes: 9 * GIB, takenBytes: 9 * GIB },
        1023 * GIB,
        GIB,
      ),
      quotaMessage({ className: CLASS, name: undefined, limitBytes: 9 * GIB, takenBytes: 9 * GIB }, 1023 * GIB, 0),
      homeProblem(undefined, []),
      homeProblem({ metadata: { name: MEMBER_NAMESPACE } }, []),
      homeProblem(
        { metadata: { name: MEMBER_NAMESPACE, labels: { "pod-security.kubernetes.io/enforce": "restricted" } } },
        HOME_GUARDS.map((name) => ({ name, policy: undefined, binding: undefined })),
      ),
      missingRight("validatingadmissionpolicybindings.admissionregistration.k8s.io", "forbidden, ".repeat(20)),
    ]);
  });

  it("is short for a claim of a class that no node can serve, and for a pod that the webhook missed", () => {
    const classOf = (provisioner: string, more: Partial<StorageClass>): StorageClass => ({
      apiVersion: "storage.k8s.io/v1",
      kind: "StorageClass",
      metadata: { name: CLASS },
      provisioner,
      ...more,
    });
    const allowedTopologies = [
      { matchLabelExpressions: [{ key: "topology.disk.csi.example.com/rack", values: ["a"] }] },
    ];
    const storage = {
      apiVersion: "tidemark.dev/v1alpha1",
      kind: "NodeStorage" as const,
      metadata: { name: NODE },
      status: { deviceClasses: [] },
    };
    const pod = {
      spec: { containers: [], schedulerName: "tidemark-scheduler" },
    };
    expectShort([
      classProblem(classOf(SPAN_DRIVER, { allowedTopologies, volumeBindingMode: "WaitForFirstConsumer" }), []),
      classProblem(classOf(LOCAL_DRIVER, { parameters: { backend: "lvm", deviceClass: "nvme-of-the-database-1" } }), [
        storage,
      ]),
      classProblem(classOf(LOCAL_DRIVER, {}), [storage]),
      missedPlacement(pod, { ours: [{ className: CLASS, bytes: GIB }], missing: [] }, new Set(["tidemark-scheduler"])),
    ]);
  });
});

describe("what the agent says of a volume", () => {
  const live = buildLoopLayout();
  const record = { ...recordWithLayout(live, undefined), memberMade: true };
  const said = `${"umount: target is busy. ".repeat(6)}(exit 32)`;
  const last: LastOperation = {
    kind: "Shrink",
    from: "1023Gi",
    to: "512Gi",
    reached: "1023Gi",
    epoch: 1,
    outcome: "Failed",
    message: said,
    startedAt: "2026-01-01T00:00:00Z",
    endedAt: "2026-01-01T00:00:01Z",
  };

  it.each<[string, VolumeChange]>([
    ["one that is mounted", {}],
    ["one that hangs", { hung: true }],
    ["one that is read-only", { readOnlySinceMs: NOW_MS }],
    ["one whose last operation failed", { record: { ...record, lastOperation: last } }],
    ["members that a user has added", { members: ["m4", "m5"].map((name) => ({ name, state: "Stranger" as const })) }],
    ["one that is not mounted", { mounted: undefined, held: true }],
    [
      "one that is made by its first pod",
      { mounted: undefined, sizeBytes: undefined, record: { ...record, memberMade: false } },
    ],
    ["a member that is missing", { mounted: undefined, sizeBytes: undefined }],
  ])("is short for %s", (_what, change) => {
    const state = buildVolumeState(record, { sizeBytes: 1023 * GIB, ...change });
    const { conditions = [] } = layoutStatus({ state, nodeName: NODE, nowMs: NOW_MS, live });
    expectShort(conditions.map(({ message }) => message));
  });

  it.each([0.2, 0.95, Number.NaN])("is short for a thin pool of which %d is used", (dataUsedRatio) => {
    const pool = {
      deviceClass: "nvme-of-the-database-1",
      sizeBytes: 1023 * GIB,
      metadataSizeBytes: GIB,
      dataUsedRatio,
      metadataUsedRatio: 0.91,
      groupFreeBytes: 0,
      grainBytes: 4 << 20,
    };
    const growth = {
      policy: NAME,
      suspended: false,
      extendAtRatio: 0.8,
      by: { kind: "ratio", ratio: 0.2 },
      maxBytes: 2048 * GIB,
    } as const;
    expectShort([pool, { ...pool, groupFreeBytes: 4096 * GIB }].map((one) => decideThinPool(one, growth).message));
  });
});
