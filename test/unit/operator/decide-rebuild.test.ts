import { describe, expect, it } from "@jest/globals";
import { RECORDS } from "../../../src/api/names.ts";
import { decideRebuild } from "../../../src/operator/volume/decide-rebuild.ts";
import type { LiveVolumeFacts } from "../../../src/operator/volume/gather.ts";
import {
  buildBoundClaim,
  buildFilesystem,
  buildLayout,
  buildPersistentVolume,
  CLAIM_REF,
  HANDLE,
} from "../../builders/volume.ts";

const facts = (fields: Partial<LiveVolumeFacts> = {}): LiveVolumeFacts => ({
  handle: HANDLE,
  layout: undefined,
  filesystem: undefined,
  persistentVolume: buildPersistentVolume(),
  claim: buildBoundClaim(),
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
