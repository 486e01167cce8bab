import { mkdtempSync, readdirSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { recordWithLayout } from "../../../../src/agent/gather/layout-record.ts";
import { createNodeRecords, type NodeRecords } from "../../../../src/agent/volumes/node-records.ts";
import { directEffects } from "../../../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../../../src/platform/process/effects/file-port.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { buildSpanLayout } from "../../../builders/span-layout.ts";

describe("the node's records", () => {
  let directory: string;
  let unreadable: string[];
  let whyUnreadable: unknown[];
  let records: NodeRecords;
  const record = recordWithLayout(buildLayout(), undefined);

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-records-"));
    unreadable = [];
    whyUnreadable = [];
    records = createNodeRecords(directory, createFilePort(directEffects), (path, error) => {
      unreadable.push(path);
      whyUnreadable.push(error);
    });
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  it("read back what was written", async () => {
    const staged = { ...record, stagingPath: "/var/lib/kubelet/x", memberMade: true, epoch: 4 };
    await records.write(staged, "PowerCut");
    expect(records.readAll()).toEqual([staged]);
  });

  it("read what agents wrote that knew loop members only", async () => {
    const { backend, ...old } = record;
    writeFileSync(join(directory, `${record.handle}.json`), JSON.stringify(old));
    expect(backend).toBe("loop");
    expect(records.readAll()).toEqual([record]);
  });

  it("read back a logical volume", async () => {
    const source = { logicalVolume: { name: "fs-x", volumeID: "uid", deviceClass: "ssd" } };
    const layout = buildLayout({ backend: "lvm", members: [{ name: "member-0", source }] });
    const volume = recordWithLayout(layout, undefined);
    await records.write(volume, "PowerCut");
    expect(records.readAll()).toEqual([volume]);
  });

  it("read back a span with all that its members' drivers are called with", async () => {
    const span = recordWithLayout(buildSpanLayout(), undefined);
    await records.write(span, "PowerCut");
    expect(records.readAll()).toEqual([span]);
  });

  it("hold the last of many writes at the same time", async () => {
    const writes = Array.from({ length: 20 }, (_, epoch) => records.write({ ...record, epoch }, "ProcessDeath"));
    await Promise.all(writes);
    expect(records.readAll()).toMatchObject([{ epoch: 19 }]);
  });

  it.each(["empty", "cut off"])(
    "that a power cut leaves %s, since they were not synced, are as they were synced last",
    async (what) => {
      const synced = { ...record, memberMade: true, epoch: 1 };
      await records.write({ ...record, epoch: 0 }, "PowerCut");
      await records.write(synced, "PowerCut");
      const path = join(directory, `${record.handle}.json`);
      for (const epoch of [2, 3]) await records.write({ ...synced, epoch }, "ProcessDeath");
      truncateSync(path, what === "empty" ? 0 : 20);
      expect(records.readAll()).toEqual([synced]);
      expect(unreadable).toEqual([path]);
      // An unsynced one that comes then does not take the place of what was synced.
      await records.write({ ...synced, epoch: 4 }, "ProcessDeath");
      truncateSync(path, 0);
      expect(records.readAll()).toEqual([synced]);
    },
  );

  it("leave nothing older behind once they were synced", async () => {
    await records.write(record, "PowerCut");
    await records.write({ ...record, epoch: 1 }, "ProcessDeath");
    await records.write({ ...record, epoch: 2 }, "PowerCut");
    expect(readdirSync(directory)).toEqual([`${record.handle}.json`]);
  });

  it.each(["members", "former"])(
    "are refused by the length of %s alone, where it is one of thousands of items",
    (list) => {
      const span = recordWithLayout(buildSpanLayout(), undefined);
      writeFileSync(join(directory, `${span.handle}.json`), JSON.stringify({ ...span, [list]: Array(30_000).fill(1) }));
      expect(records.readAll()).toEqual([]);
      expect(whyUnreadable).toMatchObject([{ issues: [{ code: "too_big", path: [list] }] }]);
    },
  );

  it("report one that cannot be read, and read the others", async () => {
    await records.write(record, "PowerCut");
    writeFileSync(join(directory, "fs-broken.json"), "{");
    writeFileSync(join(directory, "fs-other.json"), JSON.stringify({ ...record, handle: "../../etc" }));
    expect(records.readAll()).toHaveLength(1);
    expect(unreadable.map((path) => path.slice(directory.length + 1)).sort()).toEqual([
      "fs-broken.json",
      "fs-other.json",
    ]);
  });

  it("are gone after a removal, which may be repeated", async () => {
    await records.write(record, "PowerCut");
    await records.write(record, "ProcessDeath");
    await records.remove(record.handle);
    await records.remove(record.handle);
    expect(readdirSync(directory)).toEqual([]);
  });
});
