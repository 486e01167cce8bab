import { describe, expect, it } from "@jest/globals";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { isRemoved, presentBytes } from "../../../../src/operator/decide/layout-facts.ts";
import { changedLayout, filesystemOf, removedMembers } from "../../../../src/operator/volumes/layout-fields.ts";
import { buildLayout, CLAIM_REF, reported } from "../../../builders/volume.ts";

describe("a change to a layout", () => {
  it("carries every field that the operator owns, and the version it was decided on", () => {
    const layout = buildLayout();
    const members = removedMembers(layout);
    expect(changedLayout(layout, { members })).toEqual({
      apiVersion: layout.apiVersion,
      kind: layout.kind,
      metadata: layout.metadata,
      spec: { ...layout.spec, members: [{ ...layout.spec.members?.[0], state: "Removed" }] },
    });
  });

  it("takes nothing that others own: not the engine's grant, not people's annotations", () => {
    const layout = buildLayout({
      annotations: { "tidemark.dev/max-size": "1Ti", "example.com/note": "mine" },
      spec: { emergency: { size: "2Gi", minAvailable: "1Gi", expiry: "2030-01-01T00:00:00Z", epoch: 1 } },
    });
    const change = changedLayout(layout, {});
    expect(change.metadata.annotations).toEqual({ "tidemark.dev/max-size": "1Ti" });
    expect(change["spec"]).not.toHaveProperty("emergency");
  });
});

describe("the Filesystem of a claim", () => {
  const owner = { apiVersion: "v1", kind: "PersistentVolumeClaim", name: CLAIM_REF.name, uid: CLAIM_REF.uid };

  it("is owned by the claim, and is collected with it", () => {
    expect(filesystemOf(CLAIM_REF, true).metadata).toEqual({
      namespace: "shop",
      name: "data",
      ownerReferences: [owner],
    });
  });

  it("has no owner where the claim is not known by its UID, and is not collected at once", () => {
    expect(filesystemOf(CLAIM_REF, false).metadata).toEqual({ namespace: "shop", name: "data" });
  });
});

describe("the size of a layout", () => {
  it("is what the node reports, whatever was ordered", () => {
    expect(presentBytes(buildLayout({ status: reported("3Gi") }))).toBe(3 * GIB);
  });

  it("is as ordered before the first report, and unknown where nothing was ordered", () => {
    expect(presentBytes(buildLayout())).toBe(GIB);
    expect(presentBytes(buildLayout({ spec: { members: [{ name: "m0", source: {} }] } }))).toBeUndefined();
  });

  it("is unknown, not smaller, while a member is missing", () => {
    const status = { members: [{ name: "m0", size: "1Gi", state: "Missing" as const }] };
    expect(presentBytes(buildLayout({ status }))).toBeUndefined();
  });
});

describe("a layout's data is gone", () => {
  const gone = { name: "m0", size: "0", state: "Removed" as const };
  it("when the node says so of every member", () => {
    expect(isRemoved(buildLayout({ status: { members: [gone] } }))).toBe(true);
  });

  it("not before its word, not while a member is left, and not when there are no members to speak of", () => {
    expect(isRemoved(buildLayout())).toBe(false);
    expect(isRemoved(buildLayout({ status: reported("1Gi") }))).toBe(false);
    expect(isRemoved(buildLayout({ spec: { members: [] }, status: { members: [gone] } }))).toBe(false);
  });
});
