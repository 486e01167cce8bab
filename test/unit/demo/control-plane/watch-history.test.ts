import { describe, expect, it } from "@jest/globals";
import type { StoredObject } from "../../../../demo/control-plane/store/stored-object.ts";
import { type Change, WatchHistory } from "../../../../demo/control-plane/store/watch-history.ts";

const object = (name: string, version: number): StoredObject => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, uid: name, resourceVersion: String(version), creationTimestamp: "2026-01-01T00:00:00Z" },
});

/** Versions 101, 102, …: each creates an object of its own. */
function historyOf(count: number, limit: number): WatchHistory {
  const history = new WatchHistory(100, limit);
  for (let version = 101; version <= 100 + count; version += 1)
    history.append({ type: "ADDED", version, object: object(`o${version}`, version), previous: undefined });
  return history;
}

const versions = (changes: Change[] | undefined) => changes?.map(({ version }) => version);

describe("a watch history", () => {
  it("gives the changes after a version, oldest first", () => {
    const history = historyOf(4, 10);
    expect(versions(history.after(100))).toEqual([101, 102, 103, 104]);
    expect(versions(history.after(102))).toEqual([103, 104]);
    expect(versions(history.after(104))).toEqual([]);
  });

  it("knows nothing of before its start", () => {
    expect(historyOf(4, 10).after(99)).toBeUndefined();
  });

  it("forgets the oldest changes over its limit, and says so rather than leave a gap", () => {
    const history = historyOf(25, 10);
    expect(history.after(114)).toBeUndefined();
    expect(versions(history.after(115))).toEqual([116, 117, 118, 119, 120, 121, 122, 123, 124, 125]);
    expect(versions(history.after(123))).toEqual([124, 125]);
  });

  it("rewinds objects to what they were: changed ones back, deleted ones there, new ones gone", () => {
    const history = new WatchHistory(100, 10);
    const before = { changed: object("changed", 90), deleted: object("deleted", 91), kept: object("kept", 92) };
    const after = { changed: object("changed", 102), born: object("born", 103) };
    history.append({ type: "MODIFIED", version: 101, object: object("changed", 101), previous: before.changed });
    history.append({ type: "MODIFIED", version: 102, object: after.changed, previous: object("changed", 101) });
    history.append({ type: "ADDED", version: 103, object: after.born, previous: undefined });
    history.append({ type: "DELETED", version: 104, object: before.deleted, previous: before.deleted });
    const now = [after.changed, after.born, before.kept];
    const then = history.rewind(now, 100)?.sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
    expect(then).toEqual([before.changed, before.deleted, before.kept]);
    expect(history.rewind(now, 99)).toBeUndefined();
  });
});
