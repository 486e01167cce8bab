import { describe, expect, it } from "@jest/globals";
import { recordWithLayout } from "../../../../src/agent/gather/layout-record.ts";
import { layoutStatus } from "../../../../src/agent/report/layout-status.ts";
import { type NodeVolumeState, newVolumeState } from "../../../../src/agent/volumes/volume-state.ts";
import type { LastOperation } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { buildMount, buildRunning, buildVolumeState, type VolumeChange } from "../../../builders/node-volume.ts";
import { buildSpanLayout } from "../../../builders/span-layout.ts";

const NOW_MS = Date.parse("2026-01-01T00:00:00Z");
const live = buildLayout();

function mountedState(change: VolumeChange = {}): NodeVolumeState {
  return buildVolumeState({ ...recordWithLayout(live, undefined), memberMade: true }, { sizeBytes: GIB, ...change });
}
function conditions(state: NodeVolumeState, layout = live): Record<string, string> {
  const status = layoutStatus({ state, nodeName: "node-a", nowMs: NOW_MS, live: layout });
  return Object.fromEntries((status.conditions ?? []).map(({ type, status, reason }) => [type, `${status} ${reason}`]));
}
const operation = { kind: "Shrink", from: "2Gi", to: "1Gi", epoch: 1, startedAt: "2026-01-01T00:00:00Z" } as const;
const failed: LastOperation = {
  ...operation,
  outcome: "Failed",
  reached: "2Gi",
  message: "no room",
  endedAt: "2026-01-01T00:00:01Z",
};

describe("the status of a layout", () => {
  it("names the target that ended before an emergency, and only where the last operation does not: older definitions do not know it", () => {
    const decidedAt = "2026-01-01T00:00:00Z";
    const ended = (last: LastOperation): unknown => {
      const state = mountedState();
      const record = { ...state.record, lastOperation: last, endedDecidedAt: decidedAt };
      return layoutStatus({ state: { ...state, record }, nodeName: "node-a", nowMs: NOW_MS, live }).endedDecidedAt;
    };
    expect(ended({ ...failed, decidedAt })).toBeUndefined();
    expect(ended({ ...failed, kind: "Extend", emergency: true })).toBe(decidedAt);
  });

  it("says what commands and users have named without anything that a terminal acts on", () => {
    const { record } = mountedState();
    const state = mountedState({
      record: { ...record, lastOperation: { ...failed, message: "\u001b[2Jno room" } },
      moving: { immovable: "a swapfile is active (/mnt/\u202efine)" },
    });
    const status = layoutStatus({ state, nodeName: "node-a", nowMs: NOW_MS, live });
    expect(status.lastOperation?.message).toBe("\\u001b[2Jno room");
    expect(status.immovable).toBe("a swapfile is active (/mnt/\\u202efine)");
  });

  describe("of a read-only filesystem", () => {
    const messageAt = (mountPath: string): string => {
      const { record } = mountedState();
      const mounted = { ...buildMount(record), mountPath };
      const state = buildVolumeState(record, { sizeBytes: GIB, mounted, readOnlySinceMs: NOW_MS });
      const { conditions = [] } = layoutStatus({ state, nodeName: "node-a", nowMs: NOW_MS, live });
      return conditions.find(({ type }) => type === "Ready")?.message ?? "";
    };
    const ofKubelet = `/var/lib/kubelet/plugins/kubernetes.io/csi/local.tidemark.dev/${"a1".repeat(32)}/globalmount`;

    it.each([
      [
        "says to look for an error first, and then to remount which path",
        "/mnt/data",
        /^Look at dmesg.* unmount, check and mount .* else run mount -o remount,rw \/mnt\/data$/,
      ],
      ["says where kubelet has it mounted, in full", ofKubelet, new RegExp(`^See dmesg; read-only: ${ofKubelet}$`)],
      [
        "says since when, and no part of a path that is too long",
        `/snap/microk8s${ofKubelet}`,
        /^Look at dmesg.* else remount it .mount -o remount,rw.*since 2026-01-01T00:00:00.000Z$/,
      ],
    ])("%s", (_what, mountPath, message) => {
      expect(messageAt(mountPath)).toMatch(message);
      expect(messageAt(mountPath).length).toBeLessThanOrEqual(160);
    });
  });

  it.each<[string, NodeVolumeState, Record<string, string>]>([
    ["mounted", mountedState(), { Ready: "True Ready", Reconciling: "False Ready", Stalled: "False Ready" }],
    [
      "not mounted",
      mountedState({ mounted: undefined }),
      { Ready: "True Ready", Reconciling: "False Ready", Stalled: "False Ready" },
    ],
    [
      "never made",
      newVolumeState(recordWithLayout(live, undefined), false),
      { Ready: "False Provisioning", Reconciling: "True Provisioning", Stalled: "False Ready" },
    ],
    [
      "hung",
      mountedState({ hung: true }),
      { Ready: "False FilesystemHung", Reconciling: "False Ready", Stalled: "True FilesystemHung" },
    ],
    [
      "missing its member",
      mountedState({ mounted: undefined, sizeBytes: undefined }),
      { Ready: "False MembersMissing", Reconciling: "False Ready", Stalled: "True MembersMissing" },
    ],
    [
      "under the target of a deposed leader",
      mountedState({ targetRefusal: "epoch 2 < 3" }),
      { Ready: "True Ready", Reconciling: "False Ready", Stalled: "True StaleEpoch" },
    ],
    [
      "of a node whose disk takes no records",
      mountedState({ recordProblem: "its record cannot be written (ENOSPC)" }),
      { Ready: "True Ready", Reconciling: "False Ready", Stalled: "True RecordNotWritten" },
    ],
    [
      "after a failed operation",
      mountedState({ sizeBytes: 2 * GIB, record: { ...mountedState().record, lastOperation: failed } }),
      { Ready: "True Ready", Reconciling: "False Ready", Stalled: "True ResizeFailed" },
    ],
    [
      "of the size that the failed operation wanted, the filesystem not yet",
      mountedState({ unsettled: { problem: undefined }, record: { ...mountedState().record, lastOperation: failed } }),
      { Ready: "True Ready", Reconciling: "False Ready", Stalled: "True ResizeFailed" },
    ],
    [
      "of the size that the failed operation wanted after all",
      mountedState({ record: { ...mountedState().record, lastOperation: failed } }),
      { Ready: "True Ready", Reconciling: "False Ready", Stalled: "False Ready" },
    ],
    [
      "smaller than its member",
      mountedState({ unsettled: { problem: "a balance runs" } }),
      { Ready: "True Ready", Reconciling: "False Ready", Stalled: "True ResizeFailed" },
    ],
    [
      "unable to be formatted",
      mountedState({ mounted: undefined, problem: { reason: "SignatureFound", message: "ext4" } }),
      { Ready: "False SignatureFound", Reconciling: "False Ready", Stalled: "True SignatureFound" },
    ],
  ])("of a filesystem that is %s says so as kstatus reads it", (_when, state, expected) => {
    expect(conditions(state)).toEqual(expected);
  });

  it("shows the running operation, and the filesystem stays ready", () => {
    const running = buildRunning("Shrink");
    const state = mountedState({ running });
    expect(conditions(state)).toMatchObject({ Ready: "True Ready", Reconciling: "True OperationRunning" });
    expect(layoutStatus({ state, nodeName: "node-a", nowMs: NOW_MS, live }).operation).toEqual(running.operation);
  });

  it("keeps the time of a condition that has not changed", () => {
    const since = "2025-12-31T00:00:00Z";
    const ready = { type: "Ready", status: "True" as const, reason: "Ready", message: "", lastTransitionTime: since };
    const before = buildLayout({}, { conditions: [ready] });
    const status = layoutStatus({ state: mountedState(), nodeName: "node-a", nowMs: NOW_MS, live: before });
    const times = status.conditions?.map(({ type, lastTransitionTime }) => [type, lastTransitionTime]);
    expect(Object.fromEntries(times ?? [])).toMatchObject({ Ready: since, Stalled: "2026-01-01T00:00:00Z" });
  });

  it.each<[string, string | undefined, number | undefined, string | undefined]>([
    ["what was not said before", undefined, 300, "300Mi"],
    ["a change of a tenth of the size", "400Mi", 503, "503Mi"],
    ["no smaller change", "400Mi", 500, "400Mi"],
    ["that it holds nothing any more", "50Mi", 0, "0"],
    ["that it holds something again", "0", 50, "50Mi"],
    ["nothing that is not known", "400Mi", undefined, undefined],
  ])("says of what a member has allocated %s", (_what, said, mib, expected) => {
    const device = { name: "m0", state: "Present", size: "1Gi" } as const;
    const before = buildSpanLayout({}, { members: [{ ...device, ...(said && { allocated: said }) }] });
    const record = recordWithLayout(before, undefined);
    const found = { name: "m0", state: "Present", sizeBytes: GIB } as const;
    const members = [{ ...found, ...(mib === undefined ? {} : { allocatedBytes: mib * MIB }) }];
    const state = buildVolumeState(record, { members });
    const status = layoutStatus({ state, nodeName: "node-a", nowMs: NOW_MS, live: before });
    expect(status.members?.map(({ allocated }) => allocated)).toEqual([expected]);
  });

  it.each<[string, VolumeChange, string]>([
    ["its mount fails", {}, "not mounted; this node still has members of it"],
    [
      "a driver is away",
      { leavingProblem: { reason: "WaitingForMember", message: "the array is on fire" } },
      "the array is on fire",
    ],
  ])("says of a span that is not mounted, and has members here, that they are held: %s", (_what, change, message) => {
    const layout = buildSpanLayout();
    const record = { ...recordWithLayout(layout, undefined), memberMade: true };
    const said = (situation: VolumeChange) => {
      const state = buildVolumeState(record, { ...change, ...situation });
      const { mounted, conditions = [] } = layoutStatus({ state, nodeName: "node-a", nowMs: NOW_MS, live: layout });
      return { mounted, ...conditions.find(({ type }) => type === "Reconciling") };
    };
    const [held, released] = [true, false].map((is) => said({ mounted: undefined, held: is }));
    expect(held).toMatchObject({ mounted: true, status: "True", reason: "MembersHeld", message });
    expect(released).toMatchObject({ mounted: false });
    expect(released?.reason).not.toBe("MembersHeld");
    expect(said({ held: true }).reason).not.toBe("MembersHeld");
  });

  it("reports a member's last size while it is missing, and after its removal", () => {
    const before = buildLayout({}, { members: [{ name: "member-0", size: "7Gi", state: "Present" }] });
    const membersOf = (change: VolumeChange) => {
      const state = mountedState({ mounted: undefined, sizeBytes: undefined, ...change });
      return layoutStatus({ state, nodeName: "node-a", nowMs: NOW_MS, live: before }).members;
    };
    expect(membersOf({})).toEqual([{ name: "member-0", size: "7Gi", state: "Missing" }]);
    expect(membersOf({ phase: "Removed" })).toEqual([{ name: "member-0", size: "7Gi", state: "Removed" }]);
  });
});
