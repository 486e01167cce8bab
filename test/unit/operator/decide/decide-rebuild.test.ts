import { describe, expect, it } from "@jest/globals";
import type { FilesystemLayout } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import type { CsiVolumeSource, PersistentVolume } from "../../../../src/contracts/kubernetes/resources.ts";
import { RECORDS, REFUSED_ANNOTATION, SPAN_DRIVER } from "../../../../src/contracts/names.ts";
import { decideRebuild } from "../../../../src/operator/decide/decide-rebuild.ts";
import { neededMembers } from "../../../../src/operator/decide/members/decide-member-state.ts";
import type { LiveVolumeFacts } from "../../../../src/operator/gather/gather-volume.ts";
import { memberLabels } from "../../../../src/operator/volumes/member-objects.ts";
import {
  buildBoundClaim,
  buildFilesystem,
  buildLayout,
  buildPersistentVolume,
  CLAIM_REF,
  HANDLE,
  VOLUME_UID,
} from "../../../builders/volume.ts";

const facts = (fields: Partial<LiveVolumeFacts> = {}): LiveVolumeFacts => ({
  handle: HANDLE,
  layout: undefined,
  filesystem: undefined,
  persistentVolume: buildPersistentVolume(),
  claim: buildBoundClaim(),
  formerClaim: undefined,
  members: undefined,
  rivals: [],
  ...fields,
});

describe("a bound volume whose objects are gone", () => {
  it("gets both back from its PersistentVolume, with the member's size left to what is found", () => {
    const layout = buildLayout();
    const { uid: _uid, resourceVersion: _version, ...metadata } = layout.metadata;
    const plan = decideRebuild(facts());
    expect(plan?.layout).toEqual({
      apiVersion: layout.apiVersion,
      kind: layout.kind,
      metadata,
      spec: {
        ...layout.spec,
        members: [{ name: "m0", state: "Present", source: { loop: { file: `${HANDLE}-0.img` } } }],
      },
    });
    expect(plan?.filesystemOf).toEqual(CLAIM_REF);
    expect(plan?.missing).toEqual([]);
  });

  describe("where it is a raw block volume", () => {
    const ofLvm = {
      [RECORDS.backend]: "lvm",
      [RECORDS.logicalVolume]: VOLUME_UID,
      [RECORDS.deviceClass]: "ssd",
    };
    const rebuilt = (recorded: Record<string, string>, volumeMode?: "Block" | "Filesystem") => {
      const volume = buildPersistentVolume({ ...ofLvm, ...recorded });
      const spec = { ...volume.spec, ...(volumeMode === undefined ? {} : { volumeMode }) };
      return decideRebuild(facts({ persistentVolume: { ...volume, spec } }));
    };

    it("gets back that it is one", () => {
      const plan = rebuilt({ [RECORDS.volumeMode]: "Block" }, "Block");
      expect(plan?.missing).toEqual([]);
      expect(plan?.layout?.["spec"]).toMatchObject({ backend: "lvm", volumeMode: "Block" });
    });

    it.each([
      ["its record says so, and the volume's own mode does not", { [RECORDS.volumeMode]: "Block" }, "Filesystem"],
      ["its volume's own mode says so, and no record", {}, "Block"],
    ] as const)("gets nothing back where %s", (_what, recorded, volumeMode) => {
      const plan = rebuilt(recorded, volumeMode);
      expect(plan?.layout).toBeUndefined();
      expect(plan?.missing).toEqual([expect.stringContaining(RECORDS.volumeMode)]);
    });
  });

  it("gets only what is missing", () => {
    expect(decideRebuild(facts({ layout: buildLayout() }))).toMatchObject({ layout: undefined });
    expect(decideRebuild(facts({ filesystem: buildFilesystem() }))).toMatchObject({ filesystemOf: undefined });
  });

  it("gets it, too, while its PersistentVolume waits for the end of a claim that nobody deletes", () => {
    const metadata = { ...buildPersistentVolume().metadata, deletionTimestamp: "2030-01-01T00:00:00Z" };
    const terminating = { ...buildPersistentVolume(), metadata };
    expect(decideRebuild(facts({ persistentVolume: terminating }))?.layout).toBeDefined();
  });

  const volume = buildPersistentVolume();
  const claim = buildBoundClaim();
  const deleting = { ...claim.metadata, deletionTimestamp: "2030-01-01T00:00:00Z" };
  const nothing: [string, Partial<LiveVolumeFacts>][] = [
    ["nothing is missing", { layout: buildLayout(), filesystem: buildFilesystem() }],
    ["there is no PersistentVolume", { persistentVolume: undefined }],
    ["the volume is released", { persistentVolume: { ...volume, status: { phase: "Released" } } }],
    ["the claim is gone", { claim: undefined }],
    ["the claim is another one of that name", { claim: { ...claim, metadata: { ...claim.metadata, uid: "other" } } }],
    ["the claim is being deleted", { claim: { ...claim, metadata: deleting } }],
    ["the claim wants another volume", { claim: { ...claim, spec: { ...claim.spec, volumeName: "other" } } }],
  ];
  it.each(nothing)("gets nothing back when %s", (_name, fields) => {
    expect(decideRebuild(facts(fields))).toBeUndefined();
  });

  const incomplete: [string, Record<string, string>, string][] = [
    [
      "the volume UID contradicts the handle",
      { [RECORDS.volumeUID]: "99999999-2222-4333-8444-555555555555" },
      RECORDS.volumeUID,
    ],
    ["the fsid is another volume's", { [RECORDS.fsid]: "99999999-2222-4333-8444-555555555555" }, RECORDS.fsid],
    ["the filesystem type is unknown", { [RECORDS.fsType]: "zfs" }, RECORDS.fsType],
    ["the backend is unknown", { [RECORDS.backend]: "tape" }, RECORDS.backend],
  ];
  it.each(incomplete)("gets no layout, and is told what is missing, when %s", (_name, attributes, key) => {
    const plan = decideRebuild(facts({ persistentVolume: buildPersistentVolume(attributes) }));
    expect(plan?.layout).toBeUndefined();
    expect(plan?.filesystemOf).toEqual(CLAIM_REF);
    expect(plan?.missing.join()).toContain(key);
  });

  it("gets no layout when its node is not named, or two are", () => {
    const { nodeAffinity: _none, ...spec } = volume.spec;
    const plan = decideRebuild(facts({ persistentVolume: { ...volume, spec } }));
    expect(plan).toMatchObject({ layout: undefined, missing: ["nodeAffinity on topology.tidemark.dev/node"] });
  });

  it("keeps no size that cannot be read, and rebuilds the rest", () => {
    const persistentVolume = buildPersistentVolume({ [RECORDS.initialSize]: "a lot" });
    expect(decideRebuild(facts({ persistentVolume }))?.layout?.metadata.annotations).toEqual({
      [RECORDS.requestedSize]: "10Gi",
    });
  });
});

describe("a volume that was kept and is bound to a new claim", () => {
  const newRef = { namespace: "shop", name: "again", uid: "cccccccc-2222-4333-8444-555555555555" };
  const volume = buildPersistentVolume();
  const persistentVolume = { ...volume, spec: { ...volume.spec, claimRef: newRef } };
  const unrecorded = buildPersistentVolume({ [RECORDS.fsid]: "" });
  const claim = { ...buildBoundClaim(), metadata: { ...newRef } };
  const moved = (fields: Partial<LiveVolumeFacts> = {}) =>
    decideRebuild(facts({ layout: buildLayout(), filesystem: buildFilesystem(), persistentVolume, claim, ...fields }));

  it("is given to that claim, with a Filesystem of its own", () => {
    const plan = { layout: undefined, claimRef: newRef, filesystemOf: newRef, missing: [] };
    expect(moved()).toEqual(plan);
    const namesake = { ...buildBoundClaim(), metadata: { ...buildBoundClaim().metadata, uid: "younger" } };
    expect(moved({ formerClaim: namesake })).toEqual(plan);
  });

  it.each<[string, Partial<LiveVolumeFacts>]>([
    ["its former claim is there", { formerClaim: buildBoundClaim() }],
    ["two PersistentVolumes name it", { rivals: ["pv-forged"] }],
    ["the new claim does not want it", { claim: { ...claim, spec: { ...claim.spec, volumeName: "other" } } }],
    [
      "its PersistentVolume does not carry its records",
      { persistentVolume: { ...unrecorded, spec: { ...unrecorded.spec, claimRef: newRef } } },
    ],
  ])("stays whose it was while %s", (_name, fields) => {
    expect(moved(fields)).toBeUndefined();
  });
});

describe("a span whose layout is gone", () => {
  const persistentVolume = buildPersistentVolume({ [RECORDS.backend]: "span", [RECORDS.memberClass]: "member-class" });
  const span: PersistentVolume = {
    ...persistentVolume,
    spec: { ...persistentVolume.spec, csi: { ...(persistentVolume.spec.csi as CsiVolumeSource), driver: SPAN_DRIVER } },
  };
  const found = (name: string, fields: { policy?: "Retain" | "Delete"; labels?: object; leaving?: true } = {}) => ({
    claim: {
      ...buildBoundClaim(),
      metadata: {
        name: `${HANDLE}-${name}`,
        uid: `uid-${name}`,
        labels: memberLabels(VOLUME_UID, name),
        annotations: { "volume.kubernetes.io/selected-node": "node-1" },
        ...(fields.leaving ? { deletionTimestamp: "2030-01-01T00:00:00Z" } : {}),
      },
    },
    volume: {
      ...persistentVolume,
      metadata: { name: `pv-${name}`, labels: { ...(fields.labels ?? memberLabels(VOLUME_UID, name)) } },
      spec: { persistentVolumeReclaimPolicy: fields.policy ?? "Retain" },
    },
  });
  const rebuilt = (members: readonly ReturnType<typeof found>[], nodeNames: string[] = []) =>
    decideRebuild(facts({ persistentVolume: span, members: { members, nodeNames, nextMember: 3 } }));

  it("gets it back from its members' claims, on the node that it is attached to", () => {
    const plan = rebuilt([found("m2"), found("m0")], ["node-7"]);
    expect(plan?.missing).toEqual([]);
    expect(plan?.layout?.metadata.annotations).toMatchObject({
      "tidemark.dev/member-class": "member-class",
      "tidemark.dev/next-member": "3",
      "tidemark.dev/selected-node": "node-1",
    });
    expect(plan?.layout?.["spec"]).toMatchObject({
      backend: "span",
      nodeName: "node-7",
      members: ["m0", "m2"].map((name) => ({
        name,
        state: "Present",
        source: { claim: { name: `${HANDLE}-${name}`, uid: `uid-${name}` } },
      })),
    });
  });

  it("waits for no member that its node had refused, and keeps it as it is", () => {
    const refused = found("m1");
    const volume = {
      ...refused.volume,
      metadata: { ...refused.volume.metadata, annotations: { [REFUSED_ANNOTATION]: "ext4" } },
    };
    const layout = rebuilt([found("m0"), { ...refused, volume }])?.layout as FilesystemLayout | undefined;
    expect(layout?.spec.members).toMatchObject([
      { name: "m0", state: "Present" },
      { name: "m1", state: "Spare", refused: "ext4" },
    ]);
    expect(layout && neededMembers(layout).map(({ name }) => name)).toEqual(["m0"]);
  });

  it("leaves out a member that is being taken away, and does not use its name again", () => {
    const going = found("m2", { policy: "Delete", leaving: true });
    const plan = rebuilt([found("m0"), found("m1", { policy: "Delete" }), going]);
    expect(plan?.layout?.["spec"]).toMatchObject({ members: [{ name: "m0" }] });
    expect(plan?.layout?.["spec"]).not.toHaveProperty("nodeName");
    expect(plan?.layout?.metadata.annotations?.["tidemark.dev/next-member"]).toBe("3");
  });

  it("keeps a member that was just made, whose volume is not kept yet", () => {
    const plan = rebuilt([found("m0"), found("m1", { policy: "Delete", labels: {} })]);
    expect(plan?.layout?.["spec"]).toMatchObject({ members: [{ name: "m0" }, { name: "m1" }] });
  });

  it.each<[string, readonly ReturnType<typeof found>[], string[], string]>([
    ["no member is left", [], [], "member claims in tidemark-volumes"],
    ["it is attached to two nodes", [found("m0")], ["node-1", "node-2"], "there are node-1, node-2"],
    [
      "somebody has deleted a member's claim, whose volume is kept, and it is not gone yet",
      [found("m0"), found("m1", { leaving: true })],
      ["node-1"],
      `claim ${HANDLE}-m1 (being deleted; then it is recreated)`,
    ],
  ])("is not guessed where %s", (_what, members, nodeNames, text) => {
    const plan = rebuilt(members, nodeNames);
    expect(plan?.layout).toBeUndefined();
    expect(plan?.missing.join()).toContain(text);
  });

  it("has it again while it is attached, whatever became of its claim, and nothing is made for a claim that is gone", () => {
    const released: PersistentVolume = { ...span, status: { phase: "Released" } };
    const attached = { members: [found("m0")], nodeNames: ["node-7"], nextMember: 1 };
    const plan = decideRebuild(facts({ persistentVolume: released, claim: undefined, members: attached }));
    expect(plan).toMatchObject({ layout: { spec: { nodeName: "node-7" } }, filesystemOf: undefined, missing: [] });
    const detached = { ...attached, nodeNames: [] };
    expect(decideRebuild(facts({ persistentVolume: released, claim: undefined, members: detached }))).toBeUndefined();
  });

  it("is not guessed where two PersistentVolumes say that it is theirs", () => {
    const members = { members: [found("m0")], nodeNames: [], nextMember: 1 };
    const plan = decideRebuild(facts({ persistentVolume: span, members, rivals: ["forged"] }));
    expect(plan?.layout).toBeUndefined();
    expect(plan?.missing.join()).toContain(`${span.metadata.name}, forged all name it`);
  });

  it("is not guessed where its PersistentVolume does not say of which class its members are", () => {
    const { [RECORDS.memberClass]: _class, ...attributes } = span.spec.csi?.volumeAttributes ?? {};
    const csi = { ...(span.spec.csi as CsiVolumeSource), volumeAttributes: attributes };
    const members = { members: [found("m0")], nodeNames: [], nextMember: 1 };
    const plan = decideRebuild(facts({ persistentVolume: { ...span, spec: { ...span.spec, csi } }, members }));
    expect(plan?.missing).toEqual([RECORDS.memberClass]);
  });
});
