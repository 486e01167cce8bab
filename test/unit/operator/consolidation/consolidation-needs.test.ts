import { describe, expect, it } from "@jest/globals";
import type { FilesystemLayout } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import type {
  Node,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  VolumeAttachment,
} from "../../../../src/contracts/kubernetes/resources.ts";
import { SPAN_DRIVER } from "../../../../src/contracts/names.ts";
import { fitFailureSentence } from "../../../../src/extender/decide/decide-fit.ts";
import {
  decideNeeds,
  type Merging,
  PATIENCE_MS,
  type SeenNeeds,
  waitingForSlots,
} from "../../../../src/operator/consolidation/decide-needs.ts";
import { decideUnfit } from "../../../../src/operator/consolidation/decide-slots.ts";
import { isMerging, outcomeOf } from "../../../../src/operator/consolidation/merge-turns.ts";
import type { MergeWay } from "../../../../src/operator/decide/members/decide-consolidation.ts";
import { memberLabels } from "../../../../src/operator/volumes/member-objects.ts";
import { buildFilesystem, VOLUME_UID } from "../../../builders/volume.ts";
import { carriedOut, mounted, unmounted, withLast } from "../../../harness/span-steps.ts";

const NOW_MS = Date.parse("2030-01-01T00:00:00Z");
const DRIVER = "member.example.com";

interface World {
  readonly pods?: readonly Pod[];
  /** By handle, all on node-a. */
  readonly there?: Readonly<Record<string, FilesystemLayout>>;
  /** Of ordinary claims, by pod name; as the drivers' names. */
  readonly ordinary?: Readonly<Record<string, readonly string[]>>;
  /** By pod name: of which filesystems its claims are. */
  readonly spans?: Readonly<Record<string, FilesystemLayout>>;
  readonly limit?: number | undefined;
  readonly attached?: number;
  readonly givenBack?: number;
  /** Of which member each attachment is, by its labels. */
  readonly memberOf?: (index: number) => string;
  readonly way?: MergeWay | undefined;
  readonly growsAgainAtMs?: number;
  readonly attaches?: boolean;
  /** Whose node affinity names the zone "b". */
  readonly elsewhere?: boolean;
  /** Beside node-a. */
  readonly nodes?: readonly Node[];
}

function pod(
  name: string,
  fields: { waitsMs?: number; node?: string; createdMs?: number; deleted?: boolean } = {},
): Pod {
  const { waitsMs = PATIENCE_MS, node = "node-a", createdMs = NOW_MS - 60_000, deleted = false } = fields;
  const since = new Date(NOW_MS - waitsMs).toISOString();
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      namespace: "shop",
      name,
      uid: name,
      creationTimestamp: new Date(createdMs).toISOString(),
      ...(deleted ? { deletionTimestamp: since } : {}),
    },
    spec: {
      containers: [],
      ...(node === "" ? {} : { nodeName: node }),
      volumes: [{ name: "data", persistentVolumeClaim: { claimName: name } }],
    },
    status: {
      phase: "Pending",
      conditions: [{ type: "PodScheduled", status: "True", reason: "", message: "", lastTransitionTime: since }],
    },
  };
}

function volume(driver: string, name: string, isElsewhere: boolean): PersistentVolume {
  const matchExpressions = [{ key: "zone", operator: "In", values: ["b"] }];
  const reach = isElsewhere ? { nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions }] } } } : {};
  const spec = { csi: { driver, volumeHandle: name }, ...reach };
  return { apiVersion: "v1", kind: "PersistentVolume", metadata: { name }, spec };
}

function node(name: string, labels: Record<string, string> = { zone: "a" }): Node {
  const conditions = [{ type: "Ready", status: "True" as const, reason: "", message: "", lastTransitionTime: "" }];
  return { apiVersion: "v1", kind: "Node", metadata: { name, labels }, status: { conditions } };
}

const attachment = (index: number, isGivenBack: boolean, member?: string): VolumeAttachment => ({
  apiVersion: "storage.k8s.io/v1",
  kind: "VolumeAttachment",
  metadata: {
    name: `va-${index}`,
    ...(isGivenBack ? { deletionTimestamp: "2029-12-31T00:00:00Z" } : {}),
    ...(member === undefined ? {} : { labels: memberLabels(VOLUME_UID, member) }),
  },
  spec: { attacher: DRIVER, nodeName: "node-a", source: { persistentVolumeName: `pv-of-${index}` } },
});

/** One pod, "late", with an ordinary volume of the members' driver, and a filesystem of four members that take all slots. */
function seen(world: World = {}): SeenNeeds {
  const { there = { wide: mounted("1Gi", "1Gi", "1Gi", "1Gi") }, spans = {}, ordinary = { late: [DRIVER] } } = world;
  const { attached = 4, givenBack = 0 } = world;
  const named = Object.entries(there).map(([name, layout]) => ({ ...layout, metadata: { ...layout.metadata, name } }));
  const attachments = Array.from({ length: attached }, (_, index) =>
    attachment(index, index < givenBack, world.memberOf?.(index)),
  );
  const limit = "limit" in world ? world.limit : 4;
  return {
    pods: world.pods ?? [pod("late")],
    claim: (namespace, name) => {
      const spec = name.startsWith("new") ? {} : { volumeName: name };
      return { metadata: { namespace, name }, spec } as PersistentVolumeClaim;
    },
    volume: (name) => {
      if (spans[name] !== undefined) return volume(SPAN_DRIVER, name, false);
      const [driver] = ordinary[name] ?? [];
      return driver === undefined ? undefined : volume(driver, name, world.elsewhere ?? false);
    },
    layout: (handle) => spans[handle],
    attaches: () => world.attaches ?? true,
    attachmentsOn: (node) => (node === "node-a" ? attachments : []),
    limitOn: (_node, driver) => (driver === DRIVER ? limit : undefined),
    driverOfNew: ({ metadata }) => (metadata.name.startsWith("new") ? DRIVER : undefined),
    nodes: () => [node("node-a"), ...(world.nodes ?? [])],
    runsOn: (name) => name !== "node-without",
    layoutsOn: (node) => (node === "node-a" ? named : []),
    merging: () => {
      const way = "way" in world ? world.way : "grow";
      return way && { way, ...(world.growsAgainAtMs === undefined ? {} : { growsAgainAtMs: world.growsAgainAtMs }) };
    },
  };
}

const decide = (world: World) => Object.fromEntries(decideNeeds(seen(world), NOW_MS));

function withTarget(layout: FilesystemLayout, size: string): FilesystemLayout {
  const target = { size, from: "4Gi", epoch: 3, decidedAt: "2029-12-31T00:00:00.000Z" };
  return { ...layout, spec: { ...layout.spec, target } };
}

describe("a pod that lacks attach slots on its node", () => {
  it("wants as few members less as it lacks slots, and says so with figures", () => {
    expect(decide({})).toEqual({
      wide: {
        pod: "shop/late",
        node: "node-a",
        members: 3,
        growth: "1Gi",
        way: "grow",
        message:
          "pod late lacks 1 attach slot of member.example.com on node node-a: m3 merged into m0 would free 1; " +
          "4 of 4 used, 1 needed",
      },
    });
  });

  it("is not named to another namespace", () => {
    const { spec, ...rest } = mounted("1Gi", "1Gi");
    const claimRef = spec.claimRef && { ...spec.claimRef, namespace: "other" };
    const message = decide({ there: { wide: { ...rest, spec: { ...spec, ...(claimRef && { claimRef }) } } } })["wide"]
      ?.message;
    expect(message).toMatch(/^a pod of another namespace lacks /);
    expect(message).not.toContain("late");
  });

  it("wants a member less for attachments of members that are there", () => {
    expect(decide({ memberOf: (index) => `m${index}` })["wide"]).toMatchObject({ members: 3 });
  });

  it("is counted with every member of its filesystem", () => {
    const late = mounted("1Gi", "1Gi", "1Gi");
    expect(decide({ spans: { late } })["wide"]).toMatchObject({ members: 1, growth: "3Gi" });
  });

  it("has all filesystems said that could help, since each has a policy of its own", () => {
    const there = { one: mounted("1Gi", "1Gi"), two: mounted("2Gi", "2Gi") };
    expect(Object.keys(decide({ there }))).toEqual(["one", "two"]);
  });

  it("is not kept waiting by many that wait for something else", () => {
    const others = Array.from({ length: 200 }, (_, index) =>
      pod(`other-${index}`, { createdMs: 0, node: index < 100 ? "node-a" : "" }),
    );
    expect(decide({ pods: [...others, pod("late")] })["wide"]?.pod).toBe("shop/late");
  });

  it("is helped before a younger one of the same node", () => {
    const pods = [pod("late"), pod("first", { createdMs: NOW_MS - 90_000 })];
    expect(decide({ pods, ordinary: { late: [DRIVER], first: [DRIVER] } })["wide"]?.pod).toBe("shop/first");
  });

  const wide = mounted("1Gi", "1Gi", "1Gi", "1Gi");
  const detaching = { ...wide, spec: leaving(wide, "pv-of-0") };
  it.each<[string, World]>([
    ["there is a slot", { limit: 5 }],
    ["a slot is being given back", { givenBack: 1 }],
    ["the attachment of a member that has left is not gone yet", { memberOf: (index) => `m${index + 1}` }],
    ["the driver has no limit", { limit: undefined }],
    ["its driver attaches nothing", { attaches: false }],
    ["it has only come", { pods: [pod("late", { waitsMs: PATIENCE_MS - 1 })] }],
    ["it is being deleted", { pods: [pod("late", { deleted: true })] }],
    ["it has no node", { pods: [pod("late", { node: "" })] }],
    ["it is on another node", { pods: [pod("late", { node: "node-b" })] }],
    ["its claim has no volume yet", { ordinary: {} }],
    ["its volume is of another driver", { ordinary: { late: ["other.example.com"] } }],
    ["it would wait all the same", { there: { wide: mounted("1Gi", "1Gi") }, spans: { late: mounted("1Gi", "1Gi") } }],
    ["no filesystem there has two members", { there: { one: mounted("1Gi"), two: mounted("2Gi") } }],
    ["nobody knows how members are made", { way: undefined }],
    ["the filesystem is not mounted", { there: { wide: { ...wide, status: { ...wide.status, mounted: false } } } }],
    ["a target is under way", { there: { wide: withTarget(wide, "5Gi") } }],
    ["a member is to leave", { there: { wide: { ...wide, spec: leaving(wide) } } }],
    ["another filesystem's member leaves", { there: { wide, detaching } }],
  ])("wants nothing where %s", (_where, world) => {
    expect(decide(world)).toEqual({});
  });

  it("is helped by a filesystem whose last target has ended, or is met", () => {
    expect(Object.keys(decide({ there: { wide: withTarget(wide, "4Gi") } }))).toEqual(["wide"]);
    expect(Object.keys(decide({ there: { wide: carriedOut(withTarget(wide, "5Gi"), "Cancelled") } }))).toEqual([
      "wide",
    ]);
  });
});

describe("a pod that lacks slots which only members have that cannot grow", () => {
  const late = mounted("1Gi", "1Gi", "1Gi");
  const OBSTACLE =
    "its members cannot grow in place, and a larger one that takes their place needs a free slot there first";

  it("is helped through a slot that is free, which the larger member has from then on", () => {
    expect(decide({ way: "replace", limit: 5, spans: { late } })["wide"]).toEqual({
      pod: "shop/late",
      node: "node-a",
      members: 2,
      growth: "3Gi",
      way: "replace",
      message:
        "pod late lacks 2 attach slots of member.example.com on node node-a: " +
        "m1, m2, m3 merged into a new one of 3Gi would free 2; 4 of 5 used, 3 needed",
    });
  });

  it("is told where none is free that one is needed first", () => {
    const need = decide({ way: "replace" })["wide"];
    expect(need?.obstacle).toBe(OBSTACLE);
    expect(need?.message).toContain("m2, m3 merged into a new one of 2Gi would free 1");
  });

  it("is told where the filesystem has one member more than it may already", () => {
    const there = { wide: mounted("1Gi", "1Gi", "1Gi", "1Gi", "1Gi") };
    expect(decide({ way: "replace", limit: 5, attached: 4, there, spans: { late } })["wide"]?.obstacle).toMatch(
      /finds no place next to its 5 members$/,
    );
  });

  it("is not told of those where others can be merged at once, and of both where only both are enough", () => {
    const one = mounted("1Gi", "1Gi", "1Gi");
    const there = { grows: one, stays: one };
    const merging = ({ metadata }: FilesystemLayout): Merging =>
      metadata.name === "grows" ? { way: "grow" } : { way: "replace" };
    const needsWith = (world: World) => decideNeeds({ ...seen({ there, ...world }), merging }, NOW_MS);
    expect([...needsWith({}).keys()]).toEqual(["grows"]);
    const both = needsWith({ spans: { late } });
    expect([...both].map(([handle, { obstacle }]) => [handle, obstacle])).toEqual([
      ["grows", undefined],
      ["stays", OBSTACLE],
    ]);
  });

  it("is told when growing is tried again where that has failed and no slot is free, and helped so from then on", () => {
    const before = decide({ way: "replace", growsAgainAtMs: NOW_MS + 1 })["wide"];
    expect(before?.obstacle).toBe(
      "a member of its class did not grow in place (tried again at 2030-01-01T00:00:00.001Z), " +
        "and a larger one that takes their place needs a free slot there first",
    );
    const tried = decide({ way: "replace", growsAgainAtMs: NOW_MS })["wide"];
    expect(tried).toMatchObject({ way: "grow", growth: "1Gi" });
    expect(tried).not.toHaveProperty("obstacle");
    expect(tried?.message).toContain("m3 merged into m0 would free 1");
    const slot = { way: "replace", growsAgainAtMs: NOW_MS, limit: 5, spans: { late } } as const;
    expect(decide(slot)["wide"]).toMatchObject({ way: "replace", growth: "3Gi" });
  });

  it("is told of a filesystem whose growth is only tried where no other is enough", () => {
    const there = { certain: mounted("1Gi", "1Gi", "1Gi"), tried: mounted("1Gi", "1Gi", "1Gi") };
    const merging = ({ metadata }: FilesystemLayout): Merging =>
      metadata.name === "certain" ? { way: "grow" } : { way: "replace", growsAgainAtMs: NOW_MS };
    const needsWith = (world: World) => decideNeeds({ ...seen({ there, ...world }), merging }, NOW_MS);
    expect([...needsWith({}).keys()]).toEqual(["certain"]);
    const three = { late: mounted("1Gi", "1Gi", "1Gi") };
    expect([...needsWith({ spans: three })].map(([handle, { way }]) => [handle, way])).toEqual([
      ["certain", "grow"],
      ["tried", "grow"],
    ]);
  });

  it("is not helped by a filesystem before it is settled that a member of it did not grow", () => {
    const layout = mounted("3Gi", "1Gi", "1Gi");
    const target = { size: "5Gi", from: "3Gi", epoch: 3, decidedAt: "2029-12-31T00:00:00.000Z" };
    const [m0, ...others] = layout.spec.members ?? [];
    const source = { claim: { name: "m0", ...m0?.source.claim, capacity: "3Gi" } };
    const asked = {
      ...layout,
      spec: { ...layout.spec, target, members: [{ name: "m0", size: "3Gi", source }, ...others] },
    };
    const sized = (layout.status?.members ?? []).map((one) => ({ ...one, size: "1Gi" }));
    const ended = carriedOut(asked, "Failed");
    const failed = { ...ended, status: { ...ended.status, members: sized } } as FilesystemLayout;
    expect(Object.keys(decide({ there: { failed } }))).toEqual(["failed"]);
    expect(decide({ there: { failed: withLast(failed, { reason: "WaitingForMember" }) } })).toEqual({});
  });

  it("is told why data cannot be moved, and not of such filesystems where others can be merged", () => {
    const one = mounted("1Gi", "1Gi", "1Gi");
    const stays = { ...one, status: { ...one.status, immovable: "it has 3 snapshots" } };
    expect(decide({ there: { stays } })["stays"]?.obstacle).toBe("it has 3 snapshots");
    expect(Object.keys(decide({ there: { stays, moves: one } }))).toEqual(["moves"]);
  });

  it("lacks no slot more for the larger member that has come, until others leave", () => {
    const replaces = { member: "m0", decidedAt: "2030-01-01T00:00:00.000Z" };
    const [m0, ...rest] = leaving(mounted("1Gi", "3Gi"), "pv-of-0").members ?? [];
    const coming = rest.map((one) => ({ ...one, state: "Spare" as const, replaces }));
    const passing = (members: readonly (typeof m0)[]) => {
      const merging = mounted("1Gi", "3Gi");
      return { ...merging, spec: { ...merging.spec, members: members.flatMap((one) => one ?? []) } };
    };
    const wide = mounted("1Gi", "1Gi", "1Gi", "1Gi");
    expect(decide({ there: { wide, merging: passing([m0, ...coming]) } })).toEqual({});
    // It has come, and the others have not left: its slot is its own.
    const stays = passing([m0, ...rest.map((one) => ({ ...one, state: "Present" as const, replaces }))]);
    const ended = withLast(stays, { outcome: "FloorReached", decidedAt: replaces.decidedAt });
    expect(decide({ there: { wide, merging: ended } })["wide"]?.message).toContain("4 of 4 used");
    const going = passing([
      m0 && { ...m0, state: "Removed" },
      ...coming.map((one) => ({ ...one, state: "Present" as const })),
    ]);
    expect(decide({ there: { wide, merging: going } })["wide"]?.message).toContain("4 of 4 used");
  });
});

const SURGE = { decidedAt: undefined, emergency: true, startedAt: "2030-01-01T00:00:05.000Z" } as const;

function heardOf(epoch: number, layout: FilesystemLayout): FilesystemLayout {
  return { ...layout, status: { ...layout.status, epoch } };
}

function leaving({ spec }: FilesystemLayout, volumeName = "other"): FilesystemLayout["spec"] {
  const members = (spec.members ?? []).map((one, index) => {
    const source = { claim: { name: one.name, ...one.source.claim, volumeName } };
    return index === 1 ? { ...one, state: "Removed" as const, source } : one;
  });
  return { ...spec, members };
}

describe("a pod that no node takes for want of attach slots", () => {
  const TAKEN = "0/2 nodes are available: 2 node(s) exceed max volume count.";
  const refused = (message: string, fields: Partial<Pod["spec"]> = {}, name = "late"): Pod => {
    const one = pod(name, { node: "" });
    const conditions = (one.status?.conditions ?? []).map((each) => ({ ...each, status: "False" as const, message }));
    return { ...one, spec: { ...one.spec, ...fields }, status: { ...one.status, conditions } };
  };
  const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [] } } };

  it.each<[string, string]>([
    ["the stock scheduler", TAKEN],
    [
      "the extender",
      `0/1 nodes are available: 1 ${fitFailureSentence({ reason: "NoSlots", subject: DRIVER, needed: 1, has: 0 }, 0, 1)}.`,
    ],
  ])("wants fewer members where %s says so", (_who, message) => {
    expect(decide({ pods: [refused(message)] })["wide"]).toMatchObject({
      pod: "shop/late",
      node: "node-a",
      members: 3,
    });
  });

  it("is not told to wait for a node that does not run the driver", () => {
    expect(decide({ pods: [refused(TAKEN)], nodes: [node("node-without")] })["wide"]).toMatchObject({ node: "node-a" });
  });

  it("is counted with the volumes that are made once it has a node", () => {
    const pods = [refused(TAKEN, {}, "new-one")];
    expect(decide({ pods })["wide"]).toMatchObject({ pod: "shop/new-one", members: 3 });
  });

  it.each<[string, World]>([
    ["the scheduler says something else", { pods: [refused("0/1 nodes are available: 1 Insufficient cpu.")] }],
    ["a node has the slots, and something else speaks against it", { pods: [refused(TAKEN)], limit: 5 }],
    ["another node has the slots", { pods: [refused(TAKEN)], nodes: [node("node-b")] }],
    ["it asks for other nodes", { pods: [refused(TAKEN, { nodeSelector: { zone: "b" } })] }],
    ["it asks for nodes in a way that only the scheduler judges", { pods: [refused(TAKEN, { affinity })] }],
    ["its volume is out of reach there", { pods: [refused(TAKEN)], elsewhere: true }],
    ["nobody can tell what its claim will be", { pods: [refused(TAKEN, {}, "late")], ordinary: {} }],
  ])("wants nothing where %s", (_where, world) => {
    expect(decide(world)).toEqual({});
  });

  it.each<[string, Partial<Node>]>([
    ["is cordoned", { spec: { unschedulable: true } }],
    ["is tainted", { spec: { taints: [{ key: "gpu", effect: "NoSchedule" }] } }],
    ["is not ready", { status: { conditions: [] } }],
  ])("wants nothing of a node that %s", (_how, change) => {
    const world = seen({ pods: [refused(TAKEN)] });
    const nodes = () => [{ ...node("node-a"), ...change }];
    expect(decideNeeds({ ...world, nodes }, NOW_MS).size).toBe(0);
  });
});

describe("a filesystem that no node can take for want of attach slots", () => {
  const late = unmounted(mounted("1Gi", "1Gi", "1Gi", "1Gi"));
  const LIMITS: Readonly<Record<string, number>> = { "node-a": 2, "node-b": 3 };
  const told = (world: World, limits = LIMITS): [string, string][] => {
    const spans = { late: { ...late, metadata: { ...late.metadata, name: "late" } } };
    const whole = { spans, attached: 0, nodes: [node("node-b")], ...world };
    const limitOn = (name: string): number | undefined => limits[name];
    const all = seen(whole);
    const ofMembers = (name: string): PersistentVolume | undefined =>
      name.startsWith("pv-") ? volume(DRIVER, name, world.elsewhere ?? false) : all.volume(name);
    const found = decideUnfit(waitingForSlots(all.pods, NOW_MS), { ...all, limitOn, volume: ofMembers });
    return [...found].map(([handle, { message }]) => [handle, message]);
  };

  it("is told with what it needs, the most that there is, and why its members are not merged", () => {
    expect(told({})).toEqual([
      [
        "late",
        "pod late needs 4 attach slots of member.example.com on one node to merge its volumes, " +
          "and no node in reach has more than 3",
      ],
    ]);
  });

  it.each<[string, World, Record<string, number>?]>([
    ["a node has as many, whoever uses them", {}, { ...LIMITS, "node-b": 4 }],
    ["a node has no limit", {}, { "node-a": 2 }],
    ["it is mounted", { spans: { late: mounted("1Gi", "1Gi", "1Gi", "1Gi") } }],
    ["it has one member", { spans: { late: unmounted(mounted("1Gi")) } }, { "node-a": 0, "node-b": 0 }],
    ["the pod has only come", { pods: [pod("late", { waitsMs: 0 })] }],
    ["the pod waits for something else", { pods: [pod("late", { node: "" })] }],
    ["its driver attaches nothing", { attaches: false }],
    ["no node is within its reach", { elsewhere: true }],
  ])("is not told of where %s", (_where, world, limits = LIMITS) => {
    expect(told(world, limits)).toEqual([]);
  });
});

describe("a merge", () => {
  const DECIDED = "2030-01-01T00:00:00.000Z";
  const FIRST = "2029-12-31T23:59:59.999Z";
  const target = { size: "4Gi", from: "4Gi", epoch: 3, decidedAt: DECIDED, members: 1 };
  const filesystem = { ...buildFilesystem(), spec: { ...buildFilesystem().spec, target } };
  const layoutWith = (decidedAt: string, size = "7Gi"): FilesystemLayout => {
    const layout = mounted("1Gi", "1Gi", "1Gi", "1Gi");
    return { ...layout, spec: { ...layout.spec, target: { size, from: "4Gi", epoch: 3, decidedAt } } };
  };

  /** It has taken room since: a member is larger. */
  const surged = (layout: FilesystemLayout): FilesystemLayout => {
    const { status } = mounted("2Gi", "1Gi", "1Gi", "1Gi");
    return withLast(
      { ...layout, status: { ...status, ...carriedOut(layout).status, members: status?.members } },
      SURGE,
    );
  };

  const ordered = (state: "Spare" | "Removed"): FilesystemLayout => {
    const { spec, ...rest } = mounted("1Gi", "1Gi", "1Gi");
    const [m0, m1, m2] = spec.members ?? [];
    const replaces = { member: "m0", decidedAt: DECIDED };
    return {
      ...rest,
      spec: { ...spec, members: [m0, m1, m2 && { ...m2, state, replaces }].flatMap((one) => one ?? []) },
    };
  };

  it.each<[string, FilesystemLayout, boolean, string | undefined]>([
    ["is only decided", mounted("1Gi", "1Gi"), false, undefined],
    ["has a new member made", ordered("Spare"), true, undefined],
    ["has a new member made, and is mounted nowhere by now", unmounted(ordered("Spare")), false, undefined],
    ["was ended by an emergency", surged(layoutWith(FIRST)), false, undefined],
    ["is carried on by nobody, since the next leader was heard of", heardOf(4, layoutWith(FIRST)), false, undefined],
    ["has a deposed leader's new member", heardOf(4, ordered("Spare")), false, undefined],
    ["has its new member withdrawn", ordered("Removed"), false, undefined],
    ["makes room", layoutWith(FIRST), true, undefined],
    ["makes room after an emergency by a clock ahead", withLast(layoutWith(FIRST), SURGE), true, undefined],
    ["has made room", carriedOut(layoutWith(FIRST)), true, undefined],
    ["could not make room", carriedOut(layoutWith(FIRST), "Failed"), false, "Failed"],
    ["lets members leave", layoutWith(DECIDED), true, undefined],
    ["is done", carriedOut(layoutWith(DECIDED)), false, "Succeeded"],
    ["has found its floor", carriedOut(layoutWith(DECIDED), "FloorReached"), false, "FloorReached"],
    ["had nothing to do", layoutWith(DECIDED, "4Gi"), false, undefined],
    ["was followed by another target", layoutWith("2030-01-01T00:05:00.000Z"), false, undefined],
  ])("that %s is told from the others", (_how, layout, merging, outcome) => {
    expect(isMerging(layout, filesystem)).toBe(merging);
    expect(outcomeOf(layout, filesystem)).toBe(outcome);
  });
});
