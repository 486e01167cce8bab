import { describe, expect, it } from "@jest/globals";
import type { ClaimSource } from "../../../../src/contracts/kinds/claim-source.ts";
import type { MemberSpec } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import type {
  PersistentVolume,
  PersistentVolumeClaim,
  VolumeAttachment,
} from "../../../../src/contracts/kubernetes/resources.ts";
import { REFUSED_ANNOTATION } from "../../../../src/contracts/names.ts";
import { decideMember, type MemberPlan } from "../../../../src/operator/decide/decide-member.ts";
import { memberLabels } from "../../../../src/operator/volumes/member-objects.ts";
import { VOLUME_UID } from "../../../builders/volume.ts";

const SOURCE: ClaimSource = { name: "data-m1" };
const RECORDED: ClaimSource = { ...SOURCE, uid: "claim-uid" };
const DRIVER = "member.example.com";

interface Found {
  readonly source?: ClaimSource;
  readonly size?: string;
  readonly state?: MemberSpec["state"];
  readonly claim?: Partial<PersistentVolumeClaim["spec"]> | null;
  readonly claimUID?: string;
  readonly annotations?: Record<string, string>;
  readonly phase?: "Pending" | "Bound" | "Lost";
  readonly shownSize?: string;
  readonly volume?: Partial<PersistentVolume["spec"]> | null;
  readonly labels?: Record<string, string>;
  /** What the layout says against its device, and what its PersistentVolume says. */
  readonly refused?: { readonly layout?: string; readonly volume?: string };
  readonly attachments?: readonly Partial<
    VolumeAttachment["spec"] & { attached: boolean; error: string; leaving: true; uid: string }
  >[];
  readonly attachRequired?: boolean;
  readonly nodeName?: string;
  readonly selectedNode?: string;
  readonly stranded?: string;
  readonly trouble?: string;
  readonly full?: string;
  readonly deviceBytes?: number;
}

function plan(found: Found): MemberPlan {
  const {
    source = SOURCE,
    size = "2Gi",
    state = "Present",
    claimUID = "claim-uid",
    phase = "Bound",
    refused = {},
  } = found;
  const claim: PersistentVolumeClaim | undefined =
    found.claim === null
      ? undefined
      : {
          apiVersion: "v1",
          kind: "PersistentVolumeClaim",
          metadata: { name: "data-m1", uid: claimUID, annotations: found.annotations },
          spec: {
            storageClassName: "member-class",
            resources: { requests: { storage: "2Gi" } },
            volumeName: "pv-1",
            ...found.claim,
          },
          status: { phase, capacity: { storage: found.shownSize ?? "2Gi" } },
        };
  const volume: PersistentVolume | undefined =
    found.volume === null
      ? undefined
      : {
          apiVersion: "v1",
          kind: "PersistentVolume",
          metadata: {
            name: "pv-1",
            labels: found.labels ?? memberLabels(VOLUME_UID, "m1"),
            ...(refused.volume === undefined ? {} : { annotations: { [REFUSED_ANNOTATION]: refused.volume } }),
          },
          spec: {
            capacity: { storage: "2Gi" },
            volumeMode: "Block",
            persistentVolumeReclaimPolicy: "Retain",
            claimRef: { uid: "claim-uid" },
            csi: { driver: DRIVER, volumeHandle: "device-1" },
            ...found.volume,
          },
        };
  const attachments = (found.attachments ?? []).map(
    ({ nodeName = "node-a", attached = false, error, leaving, uid }, index) => ({
      apiVersion: "storage.k8s.io/v1",
      kind: "VolumeAttachment",
      metadata: {
        name: `attachment-${index}`,
        uid: uid ?? `uid-${index}`,
        ...(leaving ? { deletionTimestamp: "2030-01-01T00:00:00Z" } : {}),
      },
      spec: { attacher: DRIVER, nodeName, source: { persistentVolumeName: "pv-1" } },
      status: { attached, ...(error === undefined ? {} : { attachError: { message: error } }) },
    }),
  );
  return decideMember(
    {
      member: {
        ...{ name: "m1", size, state, source: { claim: source } },
        ...(refused.layout === undefined ? {} : { refused: refused.layout }),
      },
      claim,
      volume,
      attachments,
      attachRequired: found.attachRequired ?? true,
    },
    {
      volumeUID: VOLUME_UID,
      nodeName: found.nodeName,
      selectedNode: found.selectedNode ?? found.nodeName,
      stranded: found.stranded,
      trouble: found.trouble,
      full: found.full,
      deviceBytes: found.deviceBytes,
    },
  );
}

const stepsOf = ({ steps }: MemberPlan): string[] => steps.map((step) => step.do);
const NEW: Found = { labels: {}, volume: { persistentVolumeReclaimPolicy: "Delete" } };

describe("a member", () => {
  it.each<[string, Found, string[], string | undefined]>([
    ["without a claim gets one", { claim: null }, ["create-claim"], "a claim of 2Gi"],
    ["waits for its claim to be bound", { phase: "Pending" }, [], "not bound yet"],
    [
      "is selected again for its node where it was sent away",
      { phase: "Pending", nodeName: "node-a" },
      ["select-node"],
      "not bound",
    ],
    [
      "waits for the provisioner of its node",
      { phase: "Pending", nodeName: "node-a", annotations: { "volume.kubernetes.io/selected-node": "node-a" } },
      [],
      "not bound",
    ],
    [
      "is selected again where it can be reached, published or not",
      { phase: "Pending", selectedNode: "node-b" },
      ["select-node"],
      "not bound",
    ],
    ["waits for its volume to be seen", { volume: null }, [], "pv-1 to be seen"],
    ["has its volume kept before anything else", NEW, ["keep-volume"], undefined],
    ["is kept again where somebody has changed that", { ...NEW, source: RECORDED }, ["keep-volume"], undefined],
    [
      "is attached where the volume is published",
      { ...NEW, nodeName: "node-a" },
      ["keep-volume", "attach"],
      `${DRIVER} to attach`,
    ],
    ["waits for its attacher", { nodeName: "node-a", attachments: [{}] }, [], `${DRIVER} to attach it to node node-a`],
    ["says why it cannot be attached", { nodeName: "node-a", attachments: [{ error: "no slot" }] }, [], "no slot"],
    [
      "waits until it is detached elsewhere",
      { nodeName: "node-b", attachments: [{ attached: true }] },
      [],
      "detached from node node-a",
    ],
    [
      "waits until an attachment that goes is gone",
      { nodeName: "node-a", attachments: [{ attached: true, leaving: true }] },
      ["attach"],
      "to attach",
    ],
    ["grows its claim", { size: "4Gi" }, ["grow-claim"], "to grow to 4Gi"],
    [
      "waits for its volume to be grown",
      { size: "4Gi", claim: { resources: { requests: { storage: "4Gi" } } } },
      [],
      "to grow to 4Gi",
    ],
    [
      "has its growth shown on the claim once the device has it",
      {
        size: "4Gi",
        claim: { resources: { requests: { storage: "4Gi" } } },
        volume: { capacity: { storage: "4Gi" } },
        deviceBytes: 4 * 1024 ** 3,
      },
      ["finish-growth"],
      undefined,
    ],
    ["that is to leave does not grow", { size: "4Gi", state: "Removed" }, [], undefined],
  ])("%s", (_what, found, steps, waiting) => {
    const planned = plan(found);
    expect(stepsOf(planned)).toEqual(steps);
    if (waiting === undefined) expect(planned.waiting).toBeUndefined();
    else expect(planned.waiting).toContain(waiting);
    expect(planned.problem).toBeUndefined();
  });

  it.each<[string, Found, string]>([
    ["its claim is gone", { claim: null, source: RECORDED }, "is gone"],
    ["its claim was made anew", { claimUID: "another", source: RECORDED }, "was recreated"],
    ["its claim has lost its volume", { phase: "Lost" }, "has lost its PersistentVolume"],
    ["its volume is another claim's", { volume: { claimRef: { uid: "another" } } }, "do not name each other"],
    ["its class is of no CSI driver", { volume: { csi: undefined } }, "of no CSI driver"],
    ["its volume is not a block device", { volume: { volumeMode: "Filesystem" } }, "not a block device"],
  ])("is nothing to go on with where %s", (_what, found, text) => {
    const planned = plan(found);
    expect(planned).toMatchObject({ steps: [], source: undefined, waiting: undefined });
    expect(planned.problem).toContain(text);
  });
});

describe("what is in a member's way", () => {
  it("is what its provisioner says, while it waits for its claim to be bound", () => {
    const planned = plan({ phase: "Pending", trouble: "the provisioner has no space" });
    expect(planned).toMatchObject({
      waiting: expect.stringContaining("not bound"),
      problem: "the provisioner has no space",
    });
  });

  it("is that its node has no attach slot for it: it is retained, and not attached", () => {
    const planned = plan({ ...NEW, nodeName: "node-a", state: "Spare", full: "all slots are used" });
    expect(stepsOf(planned)).toEqual(["keep-volume"]);
    expect(planned).toMatchObject({ source: undefined, problem: "all slots are used" });
    expect(planned.waiting).toContain(`${DRIVER} to attach`);
  });
});

describe("a member's volume", () => {
  const kept = {
    metadata: { labels: memberLabels(VOLUME_UID, "m1") },
    spec: { persistentVolumeReclaimPolicy: "Retain" },
  };

  it.each<[string, Found]>([
    ["that goes with its claim", { volume: { persistentVolumeReclaimPolicy: "Delete" } }],
    ["that says nowhere whose member it is", { labels: {} }],
    ["that goes with its claim and says nothing", NEW],
  ])("%s gets its labels and is retained, both in one write", (_what, found) => {
    expect(plan(found).steps).toMatchObject([
      { do: "keep-volume", volume: { metadata: { name: "pv-1" } }, patch: kept },
    ]);
  });

  it("that is retained and labelled is written no more", () => {
    expect(plan({}).steps).toEqual([]);
    expect(plan({ state: "Spare", refused: { layout: "ext4", volume: "ext4" } }).steps).toEqual([]);
  });

  it.each<[string, NonNullable<Found["refused"]>, string | null]>([
    ["says why its node has not taken it in", { layout: "ext4" }, "ext4"],
    ["says it as it is now", { layout: "xfs", volume: "ext4" }, "xfs"],
    ["says so no more once somebody has wiped it", { volume: "ext4" }, null],
  ])("%s, for a layout that is made again", (_what, refused, said) => {
    expect(plan({ state: "Spare", refused }).steps).toMatchObject([
      { do: "keep-volume", patch: { metadata: { annotations: { [REFUSED_ANNOTATION]: said } } } },
    ]);
  });
});

describe("what a layout says of a member", () => {
  it("comes with its attachment where the volume is published, not before", () => {
    expect(plan({ nodeName: "node-a", attachments: [{}] }).source).toBeUndefined();
    expect(plan({ nodeName: "node-a", attachments: [{ attached: true }] }).source).toMatchObject({
      uid: "claim-uid",
      driver: DRIVER,
      volumeHandle: "device-1",
      attachment: { nodeName: "node-a", name: "attachment-0", uid: "uid-0" },
    });
  });

  it("comes at once where the driver attaches nothing", () => {
    const { source, steps } = plan({ nodeName: "node-a", attachRequired: false });
    expect(source?.attachment).toEqual({ nodeName: "node-a" });
    expect(steps).toEqual([]);
  });

  it("has no attachment while the volume is published nowhere", () => {
    const attached = { ...RECORDED, attachment: { nodeName: "node-a", name: "attachment-0" } };
    expect(plan({ source: attached, attachments: [{ attached: true }] }).source).toMatchObject({ uid: "claim-uid" });
    expect(plan({ source: attached, attachments: [{ attached: true }] }).source?.attachment).toBeUndefined();
  });

  const told = { nodeName: "node-a", name: "attachment-0", uid: "uid-0", context: { lun: "7" } };

  it("keeps what attaching it has told while that very VolumeAttachment is there, even on its way out", () => {
    const found: Found = { source: { ...RECORDED, attachment: told }, nodeName: "node-a" };
    expect(plan({ ...found, attachments: [{ attached: true, leaving: true }] }).source?.attachment).toEqual(told);
  });

  it.each<[string, NonNullable<Found["attachments"]>]>([
    ["somebody has deleted it", []],
    ["another one of its name is on its way", [{ uid: "uid-1" }]],
  ])("has nothing of a VolumeAttachment that is gone where %s", (_what, attachments) => {
    const planned = plan({ source: { ...RECORDED, attachment: told }, nodeName: "node-a", attachments });
    expect(planned.source).toMatchObject({ uid: "claim-uid" });
    expect(planned.source?.attachment).toBeUndefined();
    expect(planned.waiting).toContain("to attach it to node node-a");
  });

  it("is what the next VolumeAttachment tells, under the same name", () => {
    const attachments = [{ uid: "uid-1", attached: true }];
    const { source } = plan({ source: { ...RECORDED, attachment: told }, nodeName: "node-a", attachments });
    expect(source?.attachment).toEqual({ nodeName: "node-a", name: "attachment-0", uid: "uid-1" });
  });

  it("is nothing of a new member's volume that is out of reach, which is neither kept nor attached", () => {
    const planned = plan({ ...NEW, nodeName: "node-a", stranded: "it is in zone=b" });
    expect(planned).toMatchObject({ steps: [], source: undefined, problem: "it is in zone=b" });
  });
});
