import { describe, expect, it } from "@jest/globals";
import type { KubeObject } from "../../../../src/contracts/kubernetes/object.ts";
import {
  attachmentName,
  labelledHandle,
  memberIndex,
  memberLabels,
} from "../../../../src/operator/volumes/member-objects.ts";
import { HANDLE, VOLUME_UID } from "../../../builders/volume.ts";

const labelled = (labels: Record<string, string>): KubeObject => ({
  apiVersion: "v1",
  kind: "PersistentVolumeClaim",
  metadata: { name: "any", labels },
});

describe("an attachment's name", () => {
  it("is the same for one member on one node, and another for any other", () => {
    const names = [
      attachmentName(HANDLE, "m0", "node-a"),
      attachmentName(HANDLE, "m0", "node-b"),
      attachmentName(HANDLE, "m1", "node-a"),
    ];
    expect(attachmentName(HANDLE, "m0", "node-a")).toBe(names[0]);
    expect(new Set(names).size).toBe(3);
    for (const name of names) expect(name).toMatch(/^tidemark-[0-9a-f]{32}$/);
  });
});

describe("an object's labels", () => {
  it("say whose member it is", () => {
    expect(labelledHandle(labelled(memberLabels(VOLUME_UID, "m3")))).toBe(HANDLE);
  });

  it.each<[string, Record<string, string>]>([
    ["it has none", {}],
    ["the volume is no UUID", { ...memberLabels(VOLUME_UID, "m0"), "tidemark.dev/volume-uid": "../secrets" }],
    ["the member has no name of ours", memberLabels(VOLUME_UID, "data")],
    ["it names no member", { "tidemark.dev/volume-uid": VOLUME_UID }],
  ])("say nothing where %s", (_what, labels) => {
    expect(labelledHandle(labelled(labels))).toBeUndefined();
  });
});

it("only m and a number is a member's name", () => {
  expect(["m0", "m17", "m", "x1", "m1a", "m-1", ""].map(memberIndex)).toEqual([
    0,
    17,
    ...Array<undefined>(5).fill(undefined),
  ]);
});
