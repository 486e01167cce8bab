// Which filesystem's turn it is to have its members merged, as an operator knows it that has just begun to lead.
import { afterEach, expect, it } from "@jest/globals";
import type { Filesystem } from "../../../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout, MemberSpec } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import {
  type Consolidations,
  type ConsolidationWatching,
  createConsolidations,
} from "../../../../src/operator/consolidation/consolidations.ts";
import { createMergeTurns } from "../../../../src/operator/consolidation/merge-turns.ts";
import { createLogger } from "../../../../src/platform/process/log.ts";
import { buildFilesystem } from "../../../builders/volume.ts";
import { doubleOf } from "../../../fakes/double-of.ts";
import { filledCache } from "../../../fakes/filled-cache.ts";
import { mounted } from "../../../harness/span-steps.ts";
import { eventually } from "../../../harness/wait-for.ts";

const NODE = "node-a";
const DECIDED_AT = "2030-01-01T00:10:00.000Z";
const target = { size: "6Gi", from: "6Gi", epoch: 3, decidedAt: DECIDED_AT };

const named = (name: string, layout: FilesystemLayout): FilesystemLayout => ({
  ...layout,
  metadata: { ...layout.metadata, name },
  spec: { ...layout.spec, nodeName: NODE },
});

/** A larger member is ordered for it, which is not there yet. */
function merging(name: string): FilesystemLayout {
  const layout = named(name, mounted("2Gi", "2Gi", "2Gi"));
  const made: MemberSpec = {
    name: "m3",
    size: "4Gi",
    state: "Spare",
    replaces: { member: "m1", decidedAt: DECIDED_AT },
    source: {},
  };
  return { ...layout, spec: { ...layout.spec, members: [...(layout.spec.members ?? []), made] } };
}

let consolidations: Consolidations | undefined;
afterEach(() => consolidations?.end());

function consolidationsOf(filesystems: ReadonlyMap<string, Filesystem>, ...there: FilesystemLayout[]) {
  const layouts = filledCache<FilesystemLayout>();
  const watching = doubleOf<ConsolidationWatching>("ConsolidationWatching", {
    layouts,
    pods: filledCache(),
    filesystemOf: ({ metadata }) => filesystems.get(metadata.name),
    seen: doubleOf<ConsolidationWatching["seen"]>("SeenNeeds", {
      layoutsOn: () => layouts.store.list(),
      nodes: () => [],
      attachmentsOn: () => [],
    }),
    events: { record: () => undefined },
    metrics: { consolidated: () => undefined },
    clock: { nowMs: () => Date.parse(DECIDED_AT), monotonicMs: () => 0 },
  });
  const begun = createConsolidations(watching, Promise.resolve(), 60_000, createLogger("test", "silent"));
  consolidations = begun;
  for (const layout of there) {
    layouts.put(layout);
  }
  return begun;
}

it("a merge that is under way is known, also where its layout was heard of before its Filesystem", async () => {
  const filesystems = new Map<string, Filesystem>();
  const other = named("other", mounted("2Gi", "2Gi", "2Gi"));
  const begun = consolidationsOf(filesystems, merging("merging"), other);
  filesystems.set("merging", buildFilesystem({ target: { ...target, members: 2 } }));
  begun.begin();
  await eventually("a first look", () => begun.unfitOf("other", "nothing seen yet") === undefined);
  expect(begun.reserve(other).way).toBe("wait");
  filesystems.clear();
  expect(begun.reserve(other).way).toBe("drop");
});

it("a merge that began since, and whose Filesystem was heard of late, is known, too", async () => {
  const filesystems = new Map<string, Filesystem>();
  const other = named("other", mounted("2Gi", "2Gi", "2Gi"));
  const begun = consolidationsOf(filesystems, merging("merging"), other);
  begun.begin();
  await eventually("a first look", () => begun.unfitOf("other", "nothing seen yet") === undefined);
  filesystems.set("merging", buildFilesystem({ target: { ...target, members: 2 } }));
  expect(begun.reserve(other).way).toBe("wait");
});

const [ONE, OTHER] = [
  { handle: "one", node: NODE, pod: "shop/a" },
  { handle: "other", node: NODE, pod: "shop/b" },
];
const HOUR_MS = 3_600_000;

/** A version of the layout of `one`. */
const version = (generation: number): FilesystemLayout => {
  const layout = named("one", mounted("2Gi", "2Gi"));
  return { ...layout, metadata: { ...layout.metadata, uid: "layout-1", generation } };
};

it("a turn is free again once nothing was begun in it, and stays taken by what was begun before", () => {
  const layouts = filledCache<FilesystemLayout>({}, [version(4)]);
  const turns = createMergeTurns(layouts.store);
  const end = turns.begin(ONE);
  expect(turns.isFree(OTHER, 1)).toBe(false);
  end("Nothing", 1);
  expect(turns.isFree(OTHER, 1)).toBe(true);
  turns.begin(ONE)(version(5), 2);
  turns.begin(ONE)("Nothing", 3);
  expect(turns.isFree(OTHER, 4)).toBe(false);
});

it("a turn stays taken until the write has ended that begins a merge, and caches show it", () => {
  const layouts = filledCache<FilesystemLayout>({}, [version(4)]);
  const turns = createMergeTurns(layouts.store);
  const end = turns.begin(ONE);
  expect(turns.isFree(OTHER, HOUR_MS)).toBe(false);
  end(version(5), HOUR_MS);
  expect(turns.isFree(OTHER, HOUR_MS + 60_000)).toBe(false);
  layouts.put(version(5));
  // The Filesystem's cache, by which the merge is followed, may be later.
  expect(turns.isFree(OTHER, HOUR_MS + 9999)).toBe(false);
  expect(turns.isFree(OTHER, HOUR_MS + 10_000)).toBe(true);
});

it("a turn ends some minutes after a write that the cache never shows, since etcd was put back to before it", () => {
  const turns = createMergeTurns(filledCache<FilesystemLayout>({}, [version(4)]).store);
  turns.begin(ONE)(version(5), HOUR_MS);
  expect(turns.isFree(OTHER, HOUR_MS + 299_999)).toBe(false);
  expect(turns.isFree(OTHER, HOUR_MS + 300_000)).toBe(true);
});

it("a turn stays taken for some seconds after a write that failed, since a merge may have begun by it", () => {
  const turns = createMergeTurns(filledCache<FilesystemLayout>({}, [version(4)]).store);
  turns.begin(ONE)("Perhaps", HOUR_MS);
  expect(turns.isFree(OTHER, HOUR_MS + 9999)).toBe(false);
  expect(turns.isFree(OTHER, HOUR_MS + 10_000)).toBe(true);
});

it("a turn ends with its layout", () => {
  const layouts = filledCache<FilesystemLayout>({}, [version(4)]);
  const turns = createMergeTurns(layouts.store);
  turns.begin(ONE)(version(5), 0);
  layouts.remove("one");
  expect(turns.isFree(OTHER, 10_000)).toBe(true);
});
