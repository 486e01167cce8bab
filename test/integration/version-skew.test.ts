// What earlier versions have left on disks, in LVM and in the API is read by this one, and means what it meant. Each directory below
// test/fixtures is one version's; this version's own writers write what the newest has. Where they shall write something else from now on,
// add a directory (test/fixtures/write.ts), and keep those that are there.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { recordWithLayout } from "../../src/agent/gather/layout-record.ts";
import { orphansAmong } from "../../src/agent/logical-volumes/logical-volumes.ts";
import { readMemberRecord } from "../../src/agent/storage/block/member-record.ts";
import { readUnmountedShrink } from "../../src/agent/storage/lvm/finish-unmounted-shrink.ts";
import { COPY_TAG, FORMATTED_TAG, RAW_BLOCK_TAG, taggedVolumeUID } from "../../src/agent/storage/lvm/logical-volume.ts";
import type { LvmHost } from "../../src/agent/storage/lvm/lvm-host.ts";
import { recordedTokens } from "../../src/agent/storage/lvm/reduce.ts";
import { readSpanRecord } from "../../src/agent/storage/span/span-host.ts";
import { createNodeRecords } from "../../src/agent/volumes/node-records.ts";
import { LogicalVolume as ListedVolume } from "../../src/contracts/gen/topolvm/lvmd.ts";
import { fsidOf } from "../../src/contracts/identity.ts";
import type { FilesystemLayout } from "../../src/contracts/kinds/filesystem-layout.ts";
import { KINDS } from "../../src/contracts/kinds/kinds.ts";
import type { KubeObject } from "../../src/contracts/kubernetes/object.ts";
import {
  NAMESPACES,
  type PersistentVolume,
  type PersistentVolumeClaim,
} from "../../src/contracts/kubernetes/resources.ts";
import { GROUP, VERSION } from "../../src/contracts/names.ts";
import { GIB } from "../../src/contracts/quantities/quantity.ts";
import { loadReduceTokens } from "../../src/lvmd/volumes/reduce/reductions.ts";
import { refuseWiped } from "../../src/lvmd/volumes/remove-volume.ts";
import { countOn, nextMemberOf } from "../../src/operator/decide/members/changed-members.ts";
import { rulesOfRecords } from "../../src/operator/decide/members/member-rules.ts";
import { labelledHandle } from "../../src/operator/volumes/member-objects.ts";
import { recordOfPersistentVolume, sizesOfRecords } from "../../src/operator/volumes/volume-record.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../src/platform/process/effects/file-port.ts";
import { writeRecords } from "../fixtures/written-records.ts";
import { type ApiServer, startApiServer } from "./operator/api-server.ts";

const DIRECTORY = "test/fixtures";
/** Kinds that the versions before this one did not have. */
const SINCE: ReadonlySet<string> = new Set(["ScalingApproval"]);
const VERSIONS = readdirSync(DIRECTORY, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
const MIB = 1 << 20;
const VOLUME_ID = "99999999-2222-4333-8444-555555555555";
const files = createFilePort(directEffects);

const uidOf = (digit: number): string => `${String(digit).repeat(8)}-2222-4333-8444-555555555555`;
const handleOf = (digit: number): string => `fs-${uidOf(digit)}`;
const [LOOP, LVM, RAW, SPAN] = [1, 2, 3, 4];

/** Text by path. */
function treeOf(directory: string): Record<string, string> {
  const paths = readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  return Object.fromEntries(paths.sort().map((path) => [path.slice(directory.length), readFileSync(path, "utf8")]));
}

it("this version's writers write what the newest directory has", async () => {
  const written = mkdtempSync(join(tmpdir(), "tidemark-fixtures-"));
  try {
    await writeRecords(written);
    expect(treeOf(written)).toEqual(treeOf(join(DIRECTORY, VERSIONS.at(-1) ?? "")));
  } finally {
    rmSync(written, { recursive: true });
  }
});

describe.each(VERSIONS)("what %s has left", (version) => {
  const directory = join(DIRECTORY, version);
  const members = join(directory, "agent/members");
  const read = <T>(path: string): T => JSON.parse(readFileSync(join(directory, path), "utf8")) as T;
  const layoutOf = (digit: number) => read<FilesystemLayout>(`api/FilesystemLayout.${handleOf(digit)}.json`);
  const tags = read<Record<string, string[]>>("lvm/tags.json");
  const lvm = {
    backend: "lvm",
    fsid: fsidOf(uidOf(LVM)),
    handle: handleOf(LVM),
    volumeUID: uidOf(LVM),
    deviceClass: "ssd",
    volumeID: VOLUME_ID,
  } as const;
  const host = { recordDirectory: members, socketDirectory: join(directory, "none") } as LvmHost;

  it("are node records that tell which volume was staged where, under which leader, and what was granted", () => {
    const unreadable: string[] = [];
    const records = createNodeRecords(join(directory, "agent/volumes"), files, (path) =>
      unreadable.push(path),
    ).readAll();
    expect(unreadable).toEqual([]);
    expect(records.map(({ handle }) => handle).sort()).toEqual([LOOP, LVM, RAW, SPAN].map(handleOf));
    const recordOf = (digit: number) => records.find(({ handle }) => handle === handleOf(digit));
    for (const record of records)
      expect(record).toMatchObject({
        epoch: 6,
        memberMade: true,
        stagingPath: `/var/lib/kubelet/plugins/kubernetes.io/csi/${record.handle}/globalmount`,
        grant: { size: "8Gi", minAvailable: "256Mi", expiry: "2026-03-02T12:00:00.000Z", epoch: 5 },
      });
    expect(recordOf(LOOP)).toMatchObject({
      backend: "loop",
      fsType: "btrfs",
      memberFile: `${handleOf(LOOP)}-0.img`,
      initialSizeBytes: GIB,
      endedDecidedAt: "2026-03-01T12:00:00.000Z",
      lastOperation: { kind: "Extend", outcome: "Succeeded", reached: "2Gi" },
      lastTrim: { trimmed: "300Mi" },
    });
    const volume = { deviceClass: "ssd", volumeID: VOLUME_ID };
    expect(recordOf(LVM)).toMatchObject({
      ...volume,
      fsType: "ext4",
      operation: { kind: "Shrink", from: "4Gi", to: "2Gi", step: "Resizing" },
    });
    expect(recordOf(RAW)).toMatchObject({ ...volume, volumeMode: "Block" });
    const attached = { attachment: { context: { lun: "7" } } };
    expect(recordOf(SPAN)).toMatchObject({
      members: [
        { name: "m0", wanted: "Present", wasInside: true, reported: { devid: 1 }, ...attached },
        { name: "m1", wanted: "Removed", wasInside: true, reported: { devid: 2 }, persistentVolumeUID: "pv-uid-m1" },
        { name: "m2", wanted: "Spare", wasInside: false, taken: true, replaces: true, sizeBytes: 2 * GIB },
      ],
    });
    const former = [
      { name: "m9", wasInside: true, volume: { driver: "member.example.com", volumeHandle: "device-of-m9" } },
    ];
    if (version === "v0.1.0") expect(recordOf(SPAN)).not.toHaveProperty("former");
    else expect(recordOf(SPAN)).toMatchObject({ former });
  });

  it("are records of members that say how far their one formatting has come", () => {
    for (const state of ["formatting", "formatted", "mounted"] as const) {
      const memberFile = `${handleOf(LOOP)}-${state}.img`;
      expect(readMemberRecord(members, memberFile)).toMatchObject({
        volumeUID: uidOf(LOOP),
        memberFile,
        fsType: "btrfs",
        state,
      });
    }
    expect(readMemberRecord(members, VOLUME_ID)).toMatchObject({ logicalVolume: VOLUME_ID, state: "mounted" });
  });

  it("is the record of a span that tells which members are on their way out, also without the volume's name", () => {
    const span = { backend: "span", handle: handleOf(SPAN) } as Parameters<typeof readSpanRecord>[1];
    expect(readSpanRecord({ recordDirectory: members }, span)).toMatchObject({
      volumeUID: uidOf(SPAN),
      state: "mounted",
      removals: [
        { member: "m1", devid: 2, state: "leaving", epoch: 5, volume: { volumeHandle: "device-of-m1" } },
        { member: "m2", devid: 3, state: "released" },
      ],
    });
  });

  it("are records of shrinks that are under way", () => {
    expect([...recordedTokens(host, lvm)]).toEqual(["token-1"]);
    expect(readUnmountedShrink(host, lvm)).toEqual({
      phase: "Guarded",
      snapshot: "guard-1",
      fromBytes: 4 * MIB,
      toBytes: 2 * MIB,
      filesystemBytes: 4 * MIB,
      mountedAtSeconds: 1_772_366_400,
    });
  });

  it("are lvmd's tokens: one is open, three have ended, and one may never begin", () => {
    const clock = { nowMs: () => Date.parse("2026-03-01T12:00:00.000Z"), monotonicMs: () => 0 };
    const tokens = loadReduceTokens(join(directory, "lvmd/tokens"), files, clock);
    expect(tokens.open().map(({ token }) => token)).toEqual(["begun"]);
    expect(tokens.openOf("lv-uuid-begun")).toMatchObject({ fromBytes: 4 * MIB, end: { targetBytes: 3 * MIB } });
    expect(tokens.get("reduced")?.end).toEqual({ state: "Reduced", sizeBytes: 3 * MIB });
    expect(tokens.get("refused")?.end).toMatchObject({ state: "Refused", code: "FAILED_PRECONDITION" });
    for (const token of ["burnt", "never-seen"]) expect(tokens.get(token)?.end).toEqual({ state: "Burnt" });
  });

  it("are tags of logical volumes: whose each is, what it holds, and what is under way", () => {
    const { new: made = [], copy = [], raw = [], formatted = [], shrinking = [], wiped = [], guard = [] } = tags;
    for (const own of [made, copy, formatted, shrinking, wiped]) expect(taggedVolumeUID(own)).toBe(uidOf(LVM));
    expect(taggedVolumeUID(raw)).toBe(uidOf(RAW));
    expect(made).not.toContain(FORMATTED_TAG);
    expect(formatted).toContain(FORMATTED_TAG);
    expect(copy).toEqual(expect.arrayContaining([FORMATTED_TAG, COPY_TAG]));
    expect(raw).toContain(RAW_BLOCK_TAG);
    const refused = expect.objectContaining({ code: "FAILED_PRECONDITION" });
    expect(() => refuseWiped("vg", { name: VOLUME_ID, tags: wiped })).toThrow(refused);
    expect(() => refuseWiped("vg", { name: VOLUME_ID, tags: formatted })).not.toThrow();
    const listed = (name: string, own: string[]) => ListedVolume.fromPartial({ name, tags: own });
    const snapshot = listed("guard-1", [...made, ...guard]);
    expect(orphansAmong([listed(VOLUME_ID, shrinking), snapshot], [], [layoutOf(LVM)])).toEqual([]);
    expect(orphansAmong([listed(VOLUME_ID, formatted), snapshot], [], [layoutOf(LVM)])).toEqual([snapshot]);
  });

  it.each([
    [LOOP, { backend: "loop", fsType: "btrfs", volumeMode: "Filesystem", nodeName: "node-a" }],
    [
      LVM,
      {
        backend: "lvm",
        fsType: "ext4",
        nodeName: "node-a",
        logicalVolume: { volumeID: VOLUME_ID, deviceClass: "ssd" },
      },
    ],
    [
      RAW,
      {
        backend: "lvm",
        fsType: undefined,
        volumeMode: "Block",
        logicalVolume: { volumeID: VOLUME_ID, deviceClass: "ssd" },
      },
    ],
    [
      SPAN,
      {
        backend: "span",
        nodeName: undefined,
        memberRules: { className: "member-class", maxMembers: 4, spareMembers: 1, strategy: "AddMember" },
      },
    ],
  ])("is PersistentVolume %s, from which all of its objects are recreated", (digit, meaning) => {
    const volume = read<PersistentVolume>(`api/PersistentVolume.pvc-${uidOf(digit)}.json`);
    expect(recordOfPersistentVolume(volume)).toMatchObject({
      handle: handleOf(digit),
      volumeUID: uidOf(digit),
      claim: { namespace: "shop", name: `data-${digit}`, uid: uidOf(digit) },
      requestedBytes: 10 * GIB,
      initialBytes: GIB,
      maxBytes: 100 * GIB,
      ...meaning,
    });
  });

  it("are a member's claim and volume that tell whose they are, and the number of the next member", () => {
    const claim = read<PersistentVolumeClaim>(`api/PersistentVolumeClaim.tidemark-volumes.${handleOf(SPAN)}-m0.json`);
    const volume = read<PersistentVolume>("api/PersistentVolume.pv-m0.json");
    expect([labelledHandle(claim), labelledHandle(volume)]).toEqual([handleOf(SPAN), handleOf(SPAN)]);
    expect(countOn(claim)).toBe(3);
    expect(volume.spec.persistentVolumeReclaimPolicy).toBe("Retain");
  });

  it("are layouts that an agent without records of its own goes on from", () => {
    expect(recordWithLayout(layoutOf(LOOP), undefined)).toMatchObject({
      epoch: 6,
      memberMade: true,
      grant: { size: "8Gi" },
    });
    expect(recordWithLayout(layoutOf(LVM), undefined)).toMatchObject({ volumeID: VOLUME_ID, operation: { to: "2Gi" } });
    expect(recordWithLayout(layoutOf(RAW), undefined)).toMatchObject({ volumeMode: "Block", memberMade: true });
    expect(recordWithLayout(layoutOf(SPAN), undefined)).toMatchObject({
      memberMade: true,
      members: [{ wanted: "Present" }, { wanted: "Removed" }, { wanted: "Spare", replaces: true }],
    });
    const { annotations } = layoutOf(SPAN).metadata;
    expect(nextMemberOf(layoutOf(SPAN))).toBe(3);
    expect(rulesOfRecords(annotations)).toMatchObject({ className: "member-class", strategy: "AddMember" });
    expect(sizesOfRecords(annotations)).toEqual({ requestedBytes: 10 * GIB, initialBytes: GIB, maxBytes: 100 * GIB });
  });

  describe("in the API", () => {
    let server: ApiServer;
    beforeAll(async () => {
      server = await startApiServer("node-a");
      const shop = { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop" } };
      await server.client.create("test/namespace", NAMESPACES, shop);
    });
    afterAll(() => server.stop());

    const stored = readdirSync(join(directory, "api"))
      .map((name) => read<KubeObject & { spec: object; status?: object }>(join("api", name)))
      .filter(({ apiVersion }) => apiVersion === `${GROUP}/${VERSION}`);

    it("has an object of each kind", () => {
      const kinds = KINDS.map(({ kind }) => kind).filter((kind) => !SINCE.has(kind));
      expect([...new Set(stored.map(({ kind }) => kind))].sort()).toEqual(kinds.sort());
    });

    it.each(stored.map((one) => [`${one.kind} ${one.metadata.name}`, one] as const))(
      "%s passes the schema of this version, which drops nothing of it",
      async (_name, { apiVersion, kind, metadata, spec, status }) => {
        const described = KINDS.find((one) => one.kind === kind);
        if (described === undefined) throw new Error(`there is no kind ${kind} any more`);
        const { plural, scope } = described;
        const resource = { group: GROUP, version: VERSION, plural, kind, namespaced: scope === "Namespaced" };
        const { name, namespace, annotations } = metadata;
        const object = { apiVersion, kind, metadata: { name, namespace } };
        const options = { fieldManager: "test", force: true };
        const own = { ...object, metadata: { ...object.metadata, annotations }, spec };
        let kept: KubeObject = await server.client.apply("test/stored", resource, own, options);
        if (status !== undefined)
          kept = await server.client.apply(
            "test/stored",
            resource,
            { ...object, status },
            { ...options, subresource: "status" },
          );
        expect(kept).toMatchObject({ spec: own.spec, ...(status === undefined ? {} : { status }) });
      },
    );
  });
});
