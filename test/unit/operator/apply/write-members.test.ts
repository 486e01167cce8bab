// What is recorded of members in one write of their layout, and what is said of one that has left: once, and only where the layout that named
// it is corrected.
import { describe, expect, it } from "@jest/globals";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { RECORDS } from "../../../../src/contracts/names.ts";
import { departureMessage, writeMembers } from "../../../../src/operator/apply/reconcile-members.ts";
import { createLayoutWriter } from "../../../../src/operator/apply/volume-objects.ts";
import { KubeError } from "../../../../src/platform/kube/kube-error.ts";
import { createKeyedQueue } from "../../../../src/platform/process/async/keyed-queue.ts";
import { systemClock } from "../../../../src/platform/process/clock.ts";
import { buildSpan, spanMember } from "../../../builders/span.ts";
import { NODE } from "../../../builders/volume.ts";
import { servedClient } from "../../../fakes/served-client.ts";

/** m1 has left, and the layout names it still. */
function restored(): FilesystemLayout {
  const layout = buildSpan({ sizes: ["2Gi", "1Gi"], reported: { m1: { state: "Removed" } } });
  return { ...layout, metadata: { ...layout.metadata, uid: "layout-1", generation: 4, resourceVersion: "1" } };
}

/** An API server with that layout; a write of another version than the present one is refused. */
function layoutOnServer() {
  let live = restored();
  const server = {
    live: () => live,
    refuses: undefined as KubeError | undefined,
    /** Somebody else writes: the version is another one. */
    change: (layout: FilesystemLayout): void => {
      const resourceVersion = String(Number(live.metadata.resourceVersion) + 1);
      live = { ...layout, metadata: { ...layout.metadata, resourceVersion } };
    },
  };
  const client = servedClient({
    get: async () => live,
    apply: async (_point, _resource, { metadata, spec }) => {
      if (server.refuses !== undefined) throw server.refuses;
      if (metadata.resourceVersion !== live.metadata.resourceVersion)
        throw new KubeError("Conflict", 409, "the object has been modified");
      const generation = (live.metadata.generation ?? 0) + 1;
      server.change({
        ...live,
        metadata: { ...live.metadata, generation },
        spec: { ...live.spec, ...(spec as FilesystemLayout["spec"]) },
      });
      return live;
    },
  });
  const record = async (cached: FilesystemLayout): Promise<string[]> => {
    const layouts = createLayoutWriter(client);
    const recording = { client, layouts, clock: systemClock, turns: createKeyedQueue(), budgetBytes: 0 };
    const done = { sources: new Map(), gone: new Set<string>(), noGrowth: undefined };
    const { left } = await writeMembers(recording, cached, done, undefined);
    return left.map(({ name }) => name);
  };
  return { server, record };
}

describe("a member that has left, and that the layout names still", () => {
  it("is said to have left by the write that asks it to go, and by no later one", async () => {
    const { server, record } = layoutOnServer();
    const cached = server.live();
    expect(await record(cached)).toEqual(["m1"]);
    expect(server.live().spec.members?.map(({ state }) => state)).toEqual(["Present", "Removed"]);
    // The cache shows it as it was for a while.
    expect(await record(cached)).toEqual([]);
    expect(await record(server.live())).toEqual([]);
  });

  it("is said to have left where the write goes through at the second attempt", async () => {
    const { server, record } = layoutOnServer();
    const cached = server.live();
    server.change(cached);
    expect(await record(cached)).toEqual(["m1"]);
  });

  it("is said nothing of where somebody else has changed the layout meanwhile", async () => {
    const { server, record } = layoutOnServer();
    const cached = server.live();
    server.change({ ...cached, metadata: { ...cached.metadata, generation: 5 } });
    expect(await record(cached)).toEqual([]);
    expect(server.live().spec.members?.map(({ state }) => state)).toEqual(["Present", "Present"]);
  });

  it("is said nothing of where the API server refuses the write", async () => {
    const { server, record } = layoutOnServer();
    server.refuses = new KubeError("Forbidden", 403, "no");
    await expect(record(server.live())).rejects.toThrow("Forbidden");
  });
});

describe("what has come of a span's members", () => {
  const GIB = 2 ** 30;
  const spanOf = (granted: string): FilesystemLayout => {
    const layout = buildSpan({ sizes: ["2Gi"], granted });
    const { metadata, spec, status } = layout;
    const rules = { [RECORDS.spareMembers]: "1", [RECORDS.maxMembers]: "4" };
    return {
      ...layout,
      metadata: {
        ...metadata,
        annotations: { ...metadata.annotations, ...rules },
        uid: "layout-1",
        generation: 4,
        resourceVersion: "1",
      },
      spec: { ...spec, nodeName: NODE },
      status: { ...status, nodeName: NODE },
    };
  };

  /** Records that m0 is attached to its node, and returns each specification that was written for it, with what is said of the spare. */
  async function recordAttached(layout: FilesystemLayout, limitBytes: number) {
    const written: FilesystemLayout["spec"][] = [];
    const client = servedClient({
      get: async () => undefined,
      list: async ({ plural }) => (plural === FILESYSTEM_LAYOUTS.plural ? [layout] : []),
      apply: async (_point, _resource, { spec }) => {
        written.push(spec as FilesystemLayout["spec"]);
        return layout;
      },
    });
    const layouts = createLayoutWriter(client);
    const recording = { client, layouts, clock: systemClock, turns: createKeyedQueue(), budgetBytes: limitBytes };
    const [m0] = layout.spec.members ?? [];
    const source = { ...m0?.source.claim, name: "m0", attachment: { nodeName: NODE, name: "attached", uid: "uid-a" } };
    const done = { sources: new Map([["m0", source]]), gone: new Set<string>(), noGrowth: undefined };
    const { lack: spare } = await writeMembers(recording, layout, done, undefined);
    return { written, spare, source };
  }

  it("is written together with the order of a spare, in one write", async () => {
    const { written, source } = await recordAttached(spanOf("3Gi"), 100 * GIB);
    expect(written).toHaveLength(1);
    expect(written[0]?.members).toEqual([
      expect.objectContaining({ name: "m0", source: { claim: source } }),
      expect.objectContaining({ name: "m1", state: "Spare", size: "1Gi" }),
    ]);
  });

  it("is written alone where no spare may be ordered, with the reason for people", async () => {
    const { written, spare, source } = await recordAttached(spanOf("3Gi"), 2 * GIB);
    expect(written).toHaveLength(1);
    expect(written[0]?.members).toEqual([expect.objectContaining({ name: "m0", source: { claim: source } })]);
    expect(spare).toContain("there is no spare member of 1Gi");
  });
});

describe("the words for it", () => {
  const END = "has left the filesystem: the layout is corrected, and its volume goes";
  const { source, ...member } = spanMember("m1", "1Gi");
  const named = { claim: { ...source.claim, name: "m1", volumeHandle: "vol-7" } };

  it("name its volume where the layout does", () => {
    expect(departureMessage({ ...member, source: named })).toBe(
      `member m1 (volume vol-7 of driver member.example.com) ${END}`,
    );
  });

  it("leave out what is not known", () => {
    expect(departureMessage({ ...member, source })).toBe(`member m1 ${END}`);
    const { driver: _driver, ...claim } = named.claim;
    expect(departureMessage({ ...member, source: { claim } })).toBe(`member m1 (volume vol-7) ${END}`);
  });
});
