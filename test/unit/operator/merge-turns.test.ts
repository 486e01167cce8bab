// Which filesystem's turn it is to have its members merged, as an operator knows it that has just begun to lead.
import { afterEach, expect, it } from "@jest/globals";
import type { Filesystem } from "../../../src/api/filesystem.ts";
import type { FilesystemLayout } from "../../../src/api/filesystem-layout.ts";
import { createStore } from "../../../src/kube/cache/store.ts";
import type { ConsolidationWatching } from "../../../src/operator/consolidation/consolidation-looks.ts";
import { type Consolidations, createConsolidations } from "../../../src/operator/consolidation/consolidations.ts";
import { createLogger } from "../../../src/process/log.ts";
import { buildFilesystem } from "../../builders/volume.ts";
import { eventually } from "../../fakes/eventually.ts";
import { mounted } from "../../harness/span-steps.ts";

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
  const made = {
    name: "m3",
    size: "4Gi",
    state: "Spare",
    replaces: { member: "m1", decidedAt: DECIDED_AT },
    source: {},
  };
  return { ...layout, spec: { ...layout.spec, members: [...(layout.spec.members ?? []), made as never] } };
}

let consolidations: Consolidations | undefined;
afterEach(() => consolidations?.end());

function consolidationsOf(filesystems: ReadonlyMap<string, Filesystem>, ...there: FilesystemLayout[]) {
  const store = createStore<FilesystemLayout>({});
  let added: (layout: FilesystemLayout) => void = () => undefined;
  const layouts = { store, subscribe: (handlers: { added: typeof added }) => void (added = handlers.added) };
  const watching = {
    layouts,
    pods: { store: createStore({}) },
    filesystemOf: ({ metadata }: FilesystemLayout) => filesystems.get(metadata.name),
    seen: { layoutsOn: () => store.list(), nodes: () => [], attachmentsOn: () => [] },
    events: { record: () => undefined },
    metrics: { consolidated: () => undefined },
    clock: { nowMs: () => Date.parse(DECIDED_AT), monotonicMs: () => 0 },
  } as unknown as ConsolidationWatching;
  const begun = createConsolidations(watching, Promise.resolve(), 60_000, createLogger("test", "silent"));
  consolidations = begun;
  for (const layout of there) {
    store.put(layout);
    added(layout);
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
  expect(begun.tryBegin(other)).toBe("wait");
  filesystems.clear();
  expect(begun.tryBegin(other)).toBe("drop");
});

it("a merge that began since, and whose Filesystem was heard of late, is known, too", async () => {
  const filesystems = new Map<string, Filesystem>();
  const other = named("other", mounted("2Gi", "2Gi", "2Gi"));
  const begun = consolidationsOf(filesystems, merging("merging"), other);
  begun.begin();
  await eventually("a first look", () => begun.unfitOf("other", "nothing seen yet") === undefined);
  filesystems.set("merging", buildFilesystem({ target: { ...target, members: 2 } }));
  expect(begun.tryBegin(other)).toBe("wait");
});
