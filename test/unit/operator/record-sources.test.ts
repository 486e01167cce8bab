// What is said of a member that has left: once, and only where the layout that named it is corrected.
import { describe, expect, it } from "@jest/globals";
import type { FilesystemLayout } from "../../../src/api/filesystem-layout.ts";
import type { ApplyConfiguration, KubeClient } from "../../../src/kube/client/client.ts";
import { KubeError } from "../../../src/kube/kube-error.ts";
import { departureMessage, recordSources } from "../../../src/operator/member/record-sources.ts";
import { createLayoutWriter } from "../../../src/operator/volume/layout-writer.ts";
import { buildSpan, spanMember } from "../../builders/span.ts";

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
  const client = {
    get: async () => live,
    apply: async (_point: string, _resource: unknown, { metadata, spec }: ApplyConfiguration) => {
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
  } as unknown as KubeClient;
  const record = async (cached: FilesystemLayout): Promise<string[]> => {
    const left = await recordSources(createLayoutWriter(client), cached, new Map(), new Set(), () => undefined);
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

describe("the words for it", () => {
  const END = "has left the filesystem: the layout, which named it still, is corrected, and its volume goes";
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
