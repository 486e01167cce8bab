// The agent's own process ended by SIGKILL before and after the side effects of a logical volume's life, over the real lvmd and real LVM: the
// last agent finishes, every checksum holds, and LVM has the volumes that are wanted and no other. What a loop volume's life passes as well
// is the kill matrix' part, and what the storage alone does test/real/lvm-crash.test.ts', but for the sizes. Runs inside the virtual machine
// that test/real/agent-lvm-crash.test.ts starts.
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { blockDeviceAt, blockSizeBytes } from "../../src/agent/storage/filesystem/devices-and-mounts.ts";
import { LOGICAL_VOLUMES } from "../../src/contracts/kinds/logical-volume.ts";
import { GIB, MIB } from "../../src/contracts/quantities/quantity.ts";
import { noteDeaths } from "../harness/death-notes.ts";
import { isSampled } from "../harness/sample.ts";
import { waitFor as waitForValue } from "../harness/wait-for.ts";
import { type AgentUnderTest, startAgentUnderTest, waitFor } from "../integration/agent/agent-under-test.ts";
import {
  createVolumesOverLvm,
  expectPattern,
  GROUPS,
  layoutOf,
  type VolumeOverLvm,
  type VolumesOverLvm,
  writePattern,
} from "./agent-lvm/volumes-over-lvm.ts";
import { createZeroingGate, type LvmdUnderTest, sh, startLvmdUnderTest } from "./lvmd/lvmd-under-test.ts";

const CLASSES = `
device-classes:
- { name: thick, volume-group: ${GROUPS.thick}, default: true, spare-gb: 0 }
- { name: thin, volume-group: ${GROUPS.thin}, spare-gb: 0, type: thin, thin-pool: { name: pool, overprovision-ratio: 4 } }
`;
const LIMIT_MS = 600_000;
/** The agent's own; what it tells and keeps of itself is the kill matrix' part. */
const OF_VOLUMES = /^(logical-volume|stage|publish|unpublish|unstage|extend|shrink|trim|remove)\//;
/** What moves data is died at by every commit; so many commits in a row die at the rest. */
const ALWAYS = /^shrink\//;
const COMMITS = 2;
const isTaken = (passage: string): boolean => ALWAYS.test(passage) || isSampled(passage, COMMITS);
const SMALL_BYTES = 256 * MIB;
const LOG_TAIL_CHARACTERS = 4000;
const RAW = { fsType: undefined, volumeMode: "Block" } as const;

/** What the agents are in the middle of when they die. */
interface Step {
  /** Where they die in turn, one before and one after each that this commit takes; in the order of a life in which nobody dies. */
  readonly passes: readonly string[];
  /** With an agent that lives. */
  readonly prepare: () => Promise<VolumeOverLvm>;
  /** Asks for it: of the API, or as kubelet does, again and again until it is done. */
  readonly ask: (subject: VolumeOverLvm) => Promise<void>;
  /** Returns when it is done, and throws where it is not as it must be. */
  readonly done: (subject: VolumeOverLvm) => Promise<void>;
}

describe("an agent that is killed", () => {
  let agent: AgentUnderTest;
  let lvmd: LvmdUnderTest;
  let volumes: VolumesOverLvm;
  const diedAt = new Set<string>();

  beforeAll(async () => {
    sh(`vgcreate -qq ${GROUPS.thick} /dev/ubda; vgcreate -qq ${GROUPS.thin} /dev/ubdb`);
    sh(`lvcreate -qq -y -T ${GROUPS.thin}/pool -L 3g`);
    lvmd = await startLvmdUnderTest(CLASSES);
    agent = await startAgentUnderTest();
    volumes = createVolumesOverLvm(agent, join(lvmd.directory, "s"));
    await startAgent();
  }, LIMIT_MS);
  afterAll(async () => {
    await agent?.dispose();
    await lvmd?.stop();
  }, LIMIT_MS);

  const startAgent = (environment: Record<string, string> = {}): Promise<void> =>
    agent.startAgent(environment, { "lvmd-socket": join(lvmd.directory, "s/lvmd.sock") });
  const effectLog = (): string => join(agent.directory, "effects");
  const lastPassage = (): string | undefined =>
    readFileSync(effectLog(), "utf8")
      .split("\n")
      .findLast((line) => OF_VOLUMES.test(line));

  /** One of each: their sizes go up and down from case to case. */
  let filesystem: VolumeOverLvm | undefined;
  const theFilesystem = async (): Promise<VolumeOverLvm> => {
    if (filesystem === undefined) {
      filesystem = await volumes.provide("thick", GIB);
      await filesystem.volume.stage();
      volumes.writeFiles(filesystem);
    }
    return filesystem;
  };
  let raw: VolumeOverLvm | undefined;
  const theRaw = async (): Promise<VolumeOverLvm> => {
    if (raw === undefined) {
      raw = await volumes.provide("thick", SMALL_BYTES, RAW);
      await volumes.stageRaw(raw);
      await volumes.publishRaw(raw);
      writePattern(raw);
    }
    return raw;
  };
  let source: VolumeOverLvm | undefined;
  const theSource = async (): Promise<VolumeOverLvm> => {
    if (source === undefined) {
      source = await volumes.provide("thin", SMALL_BYTES);
      await source.volume.stage();
    }
    return source;
  };
  const orderSnapshot = async (snapshot: VolumeOverLvm): Promise<void> =>
    volumes.order(snapshot, { source: (await theSource()).name, accessType: "ro" });
  const aSnapshot = async (): Promise<VolumeOverLvm> => {
    await theSource();
    return { ...volumes.subjectOf("thin", SMALL_BYTES), name: `snap-${randomUUID()}` };
  };

  const STEPS: Readonly<Record<string, Step>> = {
    "while a volume is made": {
      passes: ["logical-volume/create", "logical-volume/status"],
      prepare: async () => volumes.subjectOf("thick", SMALL_BYTES),
      ask: (subject) => volumes.order(subject),
      done: (subject) => volumes.made(subject),
    },
    "while a snapshot is made": {
      passes: ["logical-volume/snapshot"],
      prepare: aSnapshot,
      ask: orderSnapshot,
      done: (snapshot) => volumes.made(snapshot),
    },
    "while a snapshot is removed": {
      passes: ["remove/volume"],
      prepare: async () => {
        const snapshot = await aSnapshot();
        await orderSnapshot(snapshot);
        await volumes.made(snapshot);
        return snapshot;
      },
      ask: async ({ name }) => {
        await agent.client.mergePatch("test/remove", LOGICAL_VOLUMES, { name }, { spec: { state: "Removed" } });
      },
      done: async (snapshot) => {
        await volumes.gone(snapshot);
        await waitFor("it to be told", async () => {
          return (await agent.client.get(LOGICAL_VOLUMES, { name: snapshot.name }))?.status?.state === "Removed";
        });
      },
    },
    "while it extends": {
      passes: ["extend/grow-volume", "extend/resize-filesystem"],
      prepare: theFilesystem,
      ask: (subject) => volumes.askSize(subject, 256 * MIB),
      done: (subject) => volumes.reachedSize(subject),
    },
    "while it shrinks": {
      passes: [
        "shrink/resize-filesystem",
        "shrink/record-reduction",
        "shrink/reduce-volume",
        "shrink/forget-reduction",
      ],
      prepare: theFilesystem,
      ask: (subject) => volumes.askSize(subject, -256 * MIB),
      done: (subject) => volumes.reachedSize(subject),
    },
    "while it stages and publishes a raw block volume": {
      passes: ["stage/make-device-directory", "stage/make-device-file", "stage/bind-device", "publish/make-file"],
      prepare: () => volumes.provide("thick", SMALL_BYTES, RAW),
      ask: (subject) => volumes.persist(() => volumes.stageRaw(subject).then(() => volumes.publishRaw(subject))),
      done: async (subject) => {
        writePattern(subject);
        await subject.volume.unpublish();
        await volumes.publishRaw(subject);
        expectPattern(subject);
      },
    },
    "while it extends a raw block volume": {
      passes: ["extend/grow-volume"],
      prepare: theRaw,
      ask: (subject) => volumes.askSize(subject, 64 * MIB, RAW),
      done: async (subject) => {
        await volumes.reachedSize(subject);
        const device = blockDeviceAt(subject.volume.targetPath);
        expect(device && blockSizeBytes(device)).toBe(volumes.sizeOf(subject));
        expectPattern(subject);
      },
    },
    "while it lets go of a raw block volume": {
      passes: ["unpublish/remove-file", "unstage/unbind-device", "unstage/remove-device-file"],
      prepare: theRaw,
      ask: ({ volume }) => volumes.persist(() => volume.unpublish().then(() => volume.unstage())),
      done: async (subject) => {
        expect(existsSync(subject.volume.targetPath)).toBe(false);
        await volumes.stageRaw(subject);
        await volumes.publishRaw(subject);
        expectPattern(subject);
      },
    },
  };

  it.each(Object.entries(STEPS))(
    "%s, wherever it is, is followed by one that goes on, and the last finishes it",
    async (_name, { passes, prepare, ask, done }) => {
      const subject = await prepare();
      await agent.killAgent();
      let asked: Promise<void> | undefined;
      for (const passage of passes.flatMap(bothSides).filter(isTaken)) {
        await startAgentToDieAt(passage);
        asked ??= ask(subject);
        asked.catch(() => undefined); // told below
        await death(passage);
      }
      await startAgent();
      await (asked ?? ask(subject));
      await done(subject);
    },
    LIMIT_MS,
  );

  /** No agent is running. */
  async function startAgentToDieAt(passage: string): Promise<void> {
    writeFileSync(effectLog(), "");
    await startAgent({ TIDEMARK_FAULT: passage, TIDEMARK_EFFECT_LOG: effectLog() });
  }

  async function death(passage: string): Promise<void> {
    await waitForValue(`a death at ${passage}`, () => (lastPassage() === passage ? true : undefined), {
      otherwise: () => `the last was ${lastPassage()}; the agent's log: ${agent.log().slice(-LOG_TAIL_CHARACTERS)}`,
    });
    await agent.agentEnded();
    diedAt.add(passage);
  }

  it(
    "while it trims is followed by one that trims",
    async () => {
      const subject = await theSource();
      await agent.killAgent();
      await subject.volume.applyLayout(layoutOf(subject, { trim: { every: "1s" } }));
      for (const passage of bothSides("trim/fstrim").filter(isTaken)) {
        await startAgentToDieAt(passage);
        await death(passage);
      }
      await startAgent();
      const { message } = await waitForValue("a trim", async () => (await subject.volume.layout()).status?.lastTrim);
      expect(message).toBeUndefined();
    },
    LIMIT_MS,
  );

  it(
    "while lvmd clears what it has asked for, and has lost its records, is followed by one that grows nothing before that has ended",
    async () => {
      const subject = await theFilesystem();
      const gate = createZeroingGate();
      const { blocks: blocksBefore } = statfsSync(subject.volume.stagingPath);
      gate.hold(1);
      await volumes.askSize(subject, -256 * MIB);
      await waitFor("the first piece", () => gate.pieces().length === 1);
      await agent.killAgent();
      rmSync(join(agent.directory, "state"), { recursive: true });
      const { blocks } = statfsSync(subject.volume.stagingPath);
      expect(blocks).toBeLessThan(blocksBefore);
      writeFileSync(effectLog(), "");
      await startAgent({ TIDEMARK_EFFECT_LOG: effectLog() });
      const hasGrown = (): boolean => statfsSync(subject.volume.stagingPath).blocks > blocks;
      const hasAsked = (): boolean => readFileSync(effectLog(), "utf8").includes("shrink/cancel-reduce/before");
      await waitFor("it to ask lvmd, or to grow", () => hasAsked() || hasGrown());
      expect(hasGrown()).toBe(false);
      gate.open();
      await waitFor("it to grow", hasGrown);
      volumes.expectFiles(subject);
      await volumes.askSize(subject, 512 * MIB);
      await volumes.reachedSize(subject);
    },
    LIMIT_MS,
  );

  it(
    "has left no volume and lost none",
    async () => {
      volumes.expectWanted();
      const subject = await theFilesystem();
      await volumes.persist(() => subject.volume.unstage());
      await volumes.persist(() => subject.volume.stage()); // on a cold cache
      volumes.expectFiles(subject);
      expectPattern(await theRaw());
    },
    LIMIT_MS,
  );

  it("has died before and after each step, of those that this commit takes", () => {
    const listed = JSON.parse(readFileSync("test/effect-points.json", "utf8")) as string[];
    const ofMaking = listed.filter((point) => point.startsWith("logical-volume/"));
    const points = [...new Set([...ofMaking, ...Object.values(STEPS).flatMap(({ passes }) => passes), "trim/fstrim"])];
    const passages = points.flatMap(bothSides);
    noteDeaths("agent-lvm-crash", { killsAt: passages, diedAt: [...diedAt] });
    expect(passages.filter((passage) => isTaken(passage) && !diedAt.has(passage))).toEqual([]);
  });
});

function bothSides(point: string): string[] {
  return [`${point}/before`, `${point}/after`];
}
