import { describe, expect, it } from "@jest/globals";
import { recordWithLayout } from "../../../../src/agent/gather/layout-record.ts";
import { createStatusReporter, type StatusReporterParts } from "../../../../src/agent/report/status-reporter.ts";
import type { MountedVolume } from "../../../../src/agent/storage/storage.ts";
import { NodeVolume } from "../../../../src/agent/volumes/node-volume.ts";
import { newVolumeState } from "../../../../src/agent/volumes/volume-state.ts";
import type { FilesystemLayout, FilesystemLayoutStatus } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { createApplier, createOwnWrites } from "../../../../src/platform/kube/client/writes.ts";
import { KubeError } from "../../../../src/platform/kube/kube-error.ts";
import { createLogger } from "../../../../src/platform/process/log.ts";
import { buildSpanLayout } from "../../../builders/span-layout.ts";
import { doubleOf } from "../../../fakes/double-of.ts";
import { servedClient } from "../../../fakes/served-client.ts";
import { waitFor } from "../../../harness/wait-for.ts";

/** An API server with one layout; a status that names another version than the present one is refused. */
function layoutOnServer() {
  let version = 1;
  let live: FilesystemLayout | undefined = buildSpanLayout();
  const said: (boolean | undefined)[] = [];
  let requests = 0;
  const server = {
    onRead: (): void => undefined,
    onApply: async (): Promise<void> => undefined,
    /** A field that its definition does not know. */
    knows: (_status: FilesystemLayoutStatus): string | undefined => undefined,
    said,
    /** Refused ones, too. */
    requests: () => requests,
    grant: (size: string): void => {
      server.edit();
      const emergency = { size, minAvailable: "64Mi", expiry: "2030-01-01T00:00:00Z", epoch: 1 };
      live = live && { ...live, spec: { ...live.spec, emergency } };
    },
    give: (nodeName: string | undefined, status?: FilesystemLayoutStatus): void => {
      version += 1;
      live = live && { ...live, spec: { ...live.spec, nodeName }, ...(status === undefined ? {} : { status }) };
    },
    edit: (): void => {
      version += 1;
      live = live && { ...live, metadata: { ...live.metadata, generation: (live.metadata.generation ?? 0) + 1 } };
    },
    delete: (): void => {
      live = undefined;
    },
    layout: () => live && { ...live, metadata: { ...live.metadata, resourceVersion: String(version) } },
  };
  const client = servedClient({
    get: async () => {
      const layout = server.layout();
      server.onRead();
      return layout;
    },
    apply: async (_point, _resource, configuration) => {
      requests += 1;
      await server.onApply();
      const unknown = server.knows(configuration["status"] as FilesystemLayoutStatus);
      // As kube-apiserver says it: test/contract/apply.test.ts.
      if (unknown !== undefined)
        throw new KubeError(
          "Internal",
          500,
          `failed to create typed patch object (…): .status.${unknown}: field not declared in schema`,
        );
      const { resourceVersion } = configuration.metadata;
      if (resourceVersion !== undefined && resourceVersion !== String(version))
        throw new KubeError("Conflict", 409, "the object has been modified");
      version += 1;
      const status = configuration["status"] as FilesystemLayoutStatus;
      said.push(status.mounted);
      live = live && { ...live, status };
      const written = server.layout();
      if (written === undefined) throw new KubeError("NotFound", 404, "there is no such layout");
      return written;
    },
  });
  return { server, client };
}

/** `cached`: what the node has heard of last, which may lag behind the server's. */
function spanOfNode() {
  const { server, client } = layoutOnServer();
  let cached = server.layout() ?? buildSpanLayout();
  const recorded: string[] = [];
  const volume = new NodeVolume(newVolumeState(recordWithLayout(cached, undefined), false));
  const reporter = createStatusReporter({
    nodeName: "node-a",
    volumes: new Map([[volume.handle, volume]]),
    layouts: doubleOf<StatusReporterParts["layouts"]>("ReadableStore", { get: () => cached }),
    client,
    applier: createApplier(client),
    ownWrites: createOwnWrites({ monotonicMs: () => 0 }),
    events: {
      record: (_object, type, reason, message) => void recorded.push(`${type} ${reason}: ${message}`),
      flush: async () => undefined,
    },
    clock: { nowMs: () => 0, monotonicMs: () => 0 },
    log: createLogger("test", "silent"),
  });
  const hear = (): void => {
    cached = server.layout() ?? cached;
  };
  return { volume, reporter, server, hear, recorded };
}

describe("the Event of an operation's end", () => {
  const at = "2026-01-01T00:00:00Z";
  const extend = { kind: "Extend", from: "1Gi", to: "1408Mi", reached: "1408Mi", epoch: 1, startedAt: at } as const;
  const ended = { ...extend, outcome: "Succeeded", endedAt: at } as const;
  const grantSpent = ", by the emergency grant: the engine has not decided it";

  it.each([
    ["an extend", {}, "Normal ExtendSucceeded: 1Gi → 1.38Gi"],
    ["an emergency", { emergency: true }, `Warning ExtendSucceeded: 1Gi → 1.38Gi${grantSpent}`],
    ["what failed", { outcome: "Failed", message: "no room" }, "Warning ExtendFailed: 1Gi → 1.38Gi: no room"],
  ] as const)("of %s says from where to where, and how", async (_what, more, event) => {
    const { volume, reporter, recorded } = spanOfNode();
    reporter.operationEnded(volume.state, { ...ended, ...more });
    await waitFor("the Event", async () => (recorded.length > 0 ? true : undefined));
    expect(recorded).toEqual([event]);
  });
});

describe("announcing that a node holds a volume", () => {
  it("says so in the layout, and marks it as held", async () => {
    const { volume, reporter, server } = spanOfNode();
    await reporter.announce(volume.handle);
    expect(server.layout()?.status).toMatchObject({ mounted: true, nodeName: "node-a" });
    expect(volume.state.held).toBe(true);
  });

  it.each([
    ["given to another node", "node-b"],
    ["taken back", undefined],
  ])("says nothing of a volume that was %s, whatever is remembered of it here", async (_what, nodeName) => {
    const { volume, reporter, server } = spanOfNode();
    server.give(nodeName);
    await expect(reporter.announce(volume.handle)).rejects.toThrow(`gives the volume to ${nodeName ?? "no node"}`);
    expect(server.said).toEqual([]);
    expect(volume.state.held).toBe(false);
  });

  it("says nothing of one that is taken back right after it was looked at", async () => {
    const { volume, reporter, server } = spanOfNode();
    server.onRead = () => {
      server.onRead = () => undefined;
      server.give(undefined);
    };
    await expect(reporter.announce(volume.handle)).rejects.toThrow("gives the volume to no node");
    expect(server.said).toEqual([]);
    expect(volume.state.held).toBe(false);
  });

  it.each([
    ["was under way before", ["report", "announce"]],
    ["was asked for meanwhile", ["report", "announce", "report"]],
  ] as const)("is what the layout says in the end, though a report %s that knew less", async (_when, calls) => {
    const { volume, reporter, server } = spanOfNode();
    const underWay: (() => void)[] = [];
    server.onApply = () => new Promise((resolve) => underWay.push(resolve));
    let done = false;
    const all = Promise.all(calls.map((call) => reporter[call](volume.handle))).then(() => {
      done = true;
    });
    while (!done) {
      // What came last goes first, after all that could have come has come.
      for (let turn = 0; turn < 10; turn += 1) await new Promise(setImmediate);
      underWay.pop()?.();
    }
    await all;
    expect(server.layout()?.status?.mounted).toBe(true);
  });

  it("rejects when nobody can be told", async () => {
    const { volume, reporter, server } = spanOfNode();
    server.onApply = () => Promise.reject(new KubeError("Unreachable", 0, "no answer"));
    await expect(reporter.announce(volume.handle)).rejects.toThrow("no answer");
    expect(volume.state.held).toBe(false);
  });
});

describe("a report", () => {
  it("is one request where it is asked for during another, which has said the same", async () => {
    const { volume, reporter, server } = spanOfNode();
    await Promise.all([reporter.report(volume.handle), reporter.report(volume.handle)]);
    await reporter.report(volume.handle);
    expect(server.requests()).toBe(1);
  });

  it("is one request right after another, though the node has not heard of that yet", async () => {
    const { volume, reporter, server } = spanOfNode();
    await reporter.report(volume.handle);
    volume.dispatch({ type: "HoldAnnounced" });
    await reporter.report(volume.handle);
    expect(server.layout()?.status?.mounted).toBe(true);
    expect(server.requests()).toBe(2);
  });

  it("is one request more where it was refused, and another writer has changed nothing that is said", async () => {
    const { volume, reporter, server } = spanOfNode();
    await reporter.report(volume.handle);
    server.give("node-a");
    volume.dispatch({ type: "HoldAnnounced" });
    await reporter.report(volume.handle);
    expect(server.requests()).toBe(3);
  });

  it("makes no request for a larger grant, which goes with what is new next", async () => {
    const { volume, reporter, server, hear } = spanOfNode();
    await reporter.report(volume.handle);
    server.grant("3Gi");
    hear();
    await reporter.report(volume.handle);
    // Longer than what is only on its way is left untold.
    await new Promise((resolve) => setTimeout(resolve, 3500));
    expect(server.requests()).toBe(1);
    volume.dispatch({ type: "HoldAnnounced" });
    await reporter.report(volume.handle);
    expect(server.requests()).toBe(2);
    expect(server.layout()?.status?.observedGeneration).toBe(server.layout()?.metadata.generation);
  });

  it("tells of a layout that was seen and changes nothing with what is new next", async () => {
    const { volume, reporter, server, hear } = spanOfNode();
    await reporter.report(volume.handle);
    server.edit();
    hear();
    await reporter.report(volume.handle);
    expect(server.said).toHaveLength(1);
    volume.dispatch({ type: "HoldAnnounced" });
    await reporter.report(volume.handle);
    expect(server.said).toHaveLength(2);
    expect(server.layout()?.status?.observedGeneration).toBe(server.layout()?.metadata.generation);
  });

  it("tells of it by itself where nothing new comes", async () => {
    const { volume, reporter, server, hear } = spanOfNode();
    await reporter.report(volume.handle);
    server.edit();
    hear();
    await reporter.report(volume.handle);
    const isSeen = () => server.layout()?.status?.observedGeneration === server.layout()?.metadata.generation;
    await waitFor("the layout to be seen", async () => isSeen() || undefined);
    expect(server.said).toHaveLength(2);
  });

  it("tells of a grant that was lowered, though a larger one before it went unreported", async () => {
    const { volume, reporter, server, hear } = spanOfNode();
    await reporter.report(volume.handle);
    for (const size of ["4Gi", "3Gi"]) {
      server.grant(size);
      hear();
      await reporter.report(volume.handle);
    }
    const isSeen = () => server.layout()?.status?.observedGeneration === server.layout()?.metadata.generation;
    await waitFor("the layout to be seen", async () => isSeen() || undefined);
    expect(server.requests()).toBe(2);
  });

  it.each([
    ["another node has the volume, and has said so", "node-b"],
    ["no node has it", undefined],
  ])("changes nothing where %s, though this one has not heard of it", async (_what, nodeName) => {
    const { volume, reporter, server } = spanOfNode();
    const theirs = { nodeName: "node-b", mounted: true };
    server.give(nodeName, theirs);
    await reporter.report(volume.handle);
    expect(server.said).toEqual([]);
    expect(server.layout()?.status).toEqual(theirs);
  });

  it("changes nothing where the volume goes to another node while it is on its way", async () => {
    const { volume, reporter, server } = spanOfNode();
    server.onApply = async () => {
      server.onApply = async () => undefined;
      server.give("node-b");
    };
    await reporter.report(volume.handle);
    expect(server.said).toEqual([]);
  });

  it("is written on what there is by now where somebody else has changed the layout", async () => {
    const { volume, reporter, server } = spanOfNode();
    server.give("node-a");
    await reporter.report(volume.handle);
    expect(server.layout()?.status).toMatchObject({ nodeName: "node-a", mounted: false });
    expect(server.said).toHaveLength(1);
  });

  it("rejects where the layout never rests, so that it is tried again", async () => {
    const { volume, reporter, server } = spanOfNode();
    server.onApply = async () => server.give("node-a");
    await expect(reporter.report(volume.handle)).rejects.toThrow("has been modified");
  });
});

describe("a report to an API server whose definition is older", () => {
  const mounted = doubleOf<MountedVolume>("MountedVolume", {});
  const mountIt = (volume: NodeVolume): void => {
    volume.dispatch({ type: "Mounted", volume: mounted });
    volume.dispatch({ type: "MovingChecked", volume: mounted, immovable: "it has 3 snapshots" });
  };
  const refuse = (volume: NodeVolume, refusal: string): void => volume.dispatch({ type: "Decided", refusal });

  it("leaves out why data cannot be moved, and says all else", async () => {
    const { volume, reporter, server } = spanOfNode();
    mountIt(volume);
    await reporter.report(volume.handle);
    expect(server.layout()?.status).toMatchObject({ mounted: true, immovable: "it has 3 snapshots" });
    server.knows = (status) => ("immovable" in status ? "immovable" : undefined);
    volume.dispatch({ type: "SizeMeasured", sizeBytes: 1 });
    refuse(volume, "a deposed leader");
    await reporter.report(volume.handle);
    const { status } = server.layout() ?? {};
    expect(status).not.toHaveProperty("immovable");
    expect(status?.conditions).toContainEqual(expect.objectContaining({ message: "a deposed leader" }));
  });

  it("is left out with the reason that holds no longer than it, where the definition does not know it", async () => {
    const { volume, reporter, server } = spanOfNode();
    const at = "2030-01-01T00:00:00.000Z";
    const shrink = { kind: "Shrink", from: "2Gi", to: "1Gi", epoch: 1, decidedAt: at, startedAt: at } as const;
    const end = { ...shrink, outcome: "FloorReached", reached: "2Gi", floor: "2Gi", endedAt: at } as const;
    const lastOperation = { ...end, reason: "DataImmovable", message: "it has 3 snapshots" };
    mountIt(volume);
    volume.dispatch({ type: "LayoutRead", record: { ...volume.state.record, lastOperation } });
    await reporter.report(volume.handle);
    expect(server.layout()?.status?.lastOperation).toEqual(lastOperation);
    server.knows = (status) => ("immovable" in status ? "immovable" : undefined);
    volume.dispatch({ type: "SizeMeasured", sizeBytes: 1 });
    refuse(volume, "a deposed leader");
    await reporter.report(volume.handle);
    expect(server.layout()?.status?.lastOperation).toEqual({ ...lastOperation, reason: "ShrinkFloorReached" });
  });

  it("leaves out what members have allocated, with why data cannot be moved or without", async () => {
    const { volume, reporter, server } = spanOfNode();
    const members = [{ name: "m0", state: "Present", sizeBytes: GIB, allocatedBytes: 0 }] as const;
    mountIt(volume);
    volume.dispatch({ type: "MembersFound", volume: mounted, members });
    await reporter.report(volume.handle);
    expect(server.layout()?.status).toMatchObject({ members: [{ name: "m0", allocated: "0" }] });
    server.knows = ({ members: told }) =>
      told?.[0] && "allocated" in told[0] ? 'members[name="m0"].allocated' : undefined;
    refuse(volume, "a deposed leader");
    await reporter.report(volume.handle);
    expect(server.layout()?.status).toMatchObject({ immovable: "it has 3 snapshots" });
    expect(server.layout()?.status?.members).toEqual([{ name: "m0", size: "1Gi", state: "Present" }]);
    const knows = server.knows;
    server.knows = (status) => ("immovable" in status ? "immovable" : knows(status));
    refuse(volume, "another one");
    await reporter.report(volume.handle);
    expect(server.layout()?.status).not.toHaveProperty("immovable");
    expect(server.layout()?.status?.members).toEqual([{ name: "m0", size: "1Gi", state: "Present" }]);
  });

  it("fails for any other field", async () => {
    const { volume, reporter, server } = spanOfNode();
    mountIt(volume);
    server.knows = () => "fsid";
    await expect(reporter.report(volume.handle)).rejects.toThrow(".status.fsid: field not declared");
  });
});
