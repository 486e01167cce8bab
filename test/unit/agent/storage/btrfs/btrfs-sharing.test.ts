// What the btrfs tools print of subvolumes and of the device tree (btrfs-progs 6.2), read.
import { expect, it } from "@jest/globals";
import { parseLastChunkEnd, parseSubvolumes } from "../../../../../src/agent/storage/btrfs/immovable-data.ts";

it("subvolumes are counted by their lines, whatever their names are", () => {
  const text =
    "ID 256 gen 7 top level 5 path a\nID 257 gen 7 top level 0 path DELETED\nID 258 gen 9 top level 5 path ID 1\n";
  expect(parseSubvolumes(text)).toBe(3);
  expect(parseSubvolumes("")).toBe(0);
});

it("the last chunk ends where the extent that lies farthest on the device ends", () => {
  const item = (offset: number, length: number): string =>
    `\titem 7 key (1 DEV_EXTENT ${offset}) itemoff 15907 itemsize 48\n\t\tdev extent chunk_tree 3\n` +
    `\t\tchunk_objectid 256 chunk_offset 22020096 length ${length}\n\t\tchunk_tree_uuid 0b1f\n`;
  const text = `device tree key (DEV_TREE ROOT_ITEM 0)\nleaf 30408704 items 9\n${item(13631488, 8388608)}${item(471597056, 218103808)}`;
  expect(parseLastChunkEnd(text)).toBe(471597056 + 218103808);
  expect(parseLastChunkEnd(`${item(471597056, 8388608)}${item(13631488, 8388608)}`)).toBe(471597056 + 8388608);
});

it("a device tree without extents says nothing", () => {
  expect(parseLastChunkEnd("device tree key (DEV_TREE ROOT_ITEM 0)\n")).toBeUndefined();
});
