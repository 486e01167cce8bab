import { status } from "@grpc/grpc-js";
import { describe, expect, it } from "@jest/globals";
import { tagsOf } from "../../../../src/agent/logical-volumes/find-or-make.ts";
import { orphansAmong } from "../../../../src/agent/logical-volumes/logical-volumes.ts";
import { snapshotIdOf, volumeHandleOf } from "../../../../src/contracts/identity.ts";
import type { LogicalVolume, LogicalVolumeSpec } from "../../../../src/contracts/kinds/logical-volume.ts";
import { buildLayout, VOLUME_UID } from "../../../builders/filesystem-layout.ts";

function makeObject(spec: Partial<LogicalVolumeSpec> = {}, name = volumeHandleOf(VOLUME_UID)): LogicalVolume {
  return {
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "LogicalVolume",
    metadata: { name, uid: "object-uid" },
    spec: { nodeName: "node-a", deviceClass: "ssd", size: "1Gi", ...spec },
  };
}

describe("the tags of a volume", () => {
  it("name it and its claim", () => {
    expect(tagsOf(makeObject({ claimRef: { namespace: "shop", name: "data", uid: "claim-uid" } }))).toEqual([
      `tidemark.dev/volume-uid=${VOLUME_UID}`,
      "tidemark.dev/claim=shop/data",
    ]);
  });

  it("have no character that LVM does not take, whatever the claim is called", () => {
    const name = "a b'$(reboot)`;\n@é,{}";
    const [, claim] = tagsOf(makeObject({ claimRef: { namespace: "shop", name, uid: "claim-uid" } }));
    expect(claim).toMatch(/^tidemark\.dev\/claim=shop\/a_b_[A-Za-z0-9_+.\-/=!:&#]+$/);
  });

  it("name the volume alone where nobody knows its claim", () => {
    expect(tagsOf(makeObject())).toEqual([`tidemark.dev/volume-uid=${VOLUME_UID}`]);
  });

  it("say of a raw block volume, a copy and a snapshot of it that it is one, and nothing else of its content", () => {
    const block = { volumeMode: "Block" as const };
    const [volume, snapshot] = [volumeHandleOf(VOLUME_UID), snapshotIdOf(VOLUME_UID)];
    const tags = [`tidemark.dev/volume-uid=${VOLUME_UID}`, "tidemark.dev/volume-mode=Block"];
    expect(tagsOf(makeObject(block))).toEqual(tags);
    expect(tagsOf(makeObject({ ...block, source: volume }))).toEqual(tags);
    expect(tagsOf(makeObject({ ...block, source: volume, accessType: "ro" }, snapshot))).toEqual(tags);
  });

  it("are not made for an object that is named like nothing of ours", () => {
    expect(() => tagsOf(makeObject({}, "by-hand"))).toThrow(/neither like a volume handle nor like a snapshot/);
  });
});

describe("an orphan", () => {
  const listed = (name: string, tags: string[] = ["tidemark.dev/volume-uid=some"]) => ({
    ...{ name, tags, devMajor: 253, devMinor: 0, sizeBytes: 1, path: "", attr: "" },
  });
  const inLayout = buildLayout({
    backend: "lvm",
    members: [{ name: "m", source: { logicalVolume: { name: "x", volumeID: "in-layout", deviceClass: "ssd" } } }],
  });

  const givenUp = (): LogicalVolume => ({ ...makeObject(), status: { code: status.NOT_FOUND, message: "no source" } });

  it.each<[string, boolean, ReturnType<typeof listed>, LogicalVolume[]]>([
    ["that nothing names is one", true, listed("lost"), [makeObject()]],
    ["that an object is named after is none", false, listed("object-uid"), [makeObject()]],
    ["that an object looks for is none", false, listed("by-hand"), [makeObject({ volumeID: "by-hand" })]],
    ["that an object has found is none", false, listed("old"), [{ ...makeObject(), status: { volumeID: "old" } }]],
    ["that was begun for an object that is given up is one", true, listed("object-uid"), [givenUp()]],
    ["that a layout names is none", false, listed("in-layout"), []],
    ["without a tag of ours is nobody's concern", false, listed("root", ["backup"]), []],
  ])("volume %s: %s", (_which, expected, volume, objects) => {
    expect(orphansAmong([volume], objects, [inLayout])).toEqual(expected ? [volume] : []);
  });

  it("snapshot that guards a shrink is one only where its volume is not being shrunk", () => {
    const own = "tidemark.dev/volume-uid=some";
    const guard = listed("before-shrink-1", [own, "tidemark.dev/unmounted-shrink", "tidemark.dev/guards=in-layout"]);
    const shrinking = listed("in-layout", [own, "tidemark.dev/unmounted-shrink"]);
    expect(orphansAmong([guard, shrinking], [], [inLayout])).toEqual([]);
    expect(orphansAmong([guard, listed("in-layout", [own])], [], [inLayout])).toEqual([guard]);
  });
});
