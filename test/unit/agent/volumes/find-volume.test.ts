import { describe, expect, it } from "@jest/globals";
import { findVolume } from "../../../../src/agent/volumes/node-volumes.ts";
import type { FilesystemLayout } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { filledCache } from "../../../fakes/filled-cache.ts";
import { servedClient } from "../../../fakes/served-client.ts";

const OURS = buildLayout();
const BLANK: FilesystemLayout = { ...OURS, spec: {} };
const REMOVED = buildLayout({
  members: [{ name: "member-0", state: "Removed", source: { loop: { file: "member-0.img" } } }],
});

/** What the agent finds when its watch has said `heard` last, and the API server now has `live`. */
function found(heard: FilesystemLayout | undefined, live: FilesystemLayout | undefined) {
  const { store: layouts } = filledCache<FilesystemLayout>({}, heard === undefined ? [] : [heard]);
  const client = servedClient({ get: async () => live });
  return findVolume({ nodeName: "node-a", volumes: new Map(), layouts, client }, OURS.metadata.name);
}

describe("finding a volume that kubelet names", () => {
  it.each([
    ["nothing yet", undefined],
    ["a layout that is still blank", BLANK],
    ["another node's", buildLayout({ nodeName: "node-b" })],
    ["the removal of one of the same name", REMOVED],
  ])("asks the API server where the watch has said %s", async (_what, heard) => {
    expect((await found(heard, OURS))?.handle).toBe(OURS.metadata.name);
  });

  it("needs no API server for one that the watch has named", async () => {
    expect((await found(OURS, undefined))?.handle).toBe(OURS.metadata.name);
  });

  it.each([
    ["gone", undefined],
    ["blank", BLANK],
    ["another node's", buildLayout({ nodeName: "node-b" })],
    ["to be removed", REMOVED],
  ])("does not find one that is %s", async (_what, live) => {
    expect(await found(undefined, live)).toBeUndefined();
  });
});
