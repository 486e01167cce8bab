// The work on spans inside the machine that loses its power: what the agent's storage does for a layout, and what the layout becomes of it.
import { randomUUID } from "node:crypto";
import type { SpanMember } from "../../../src/agent/member-drivers/span-member.ts";
import { exclusiveOperation } from "../../../src/agent/storage/btrfs/exclusive-operation.ts";
import type { SpanStorage } from "../../../src/agent/storage/span/span-storage.ts";
import type { FoundMember, MountedSpan, SpanVolume } from "../../../src/agent/storage/storage.ts";
import { StorageError } from "../../../src/agent/storage/storage-error.ts";
import type { LoopMemberDriver } from "../../harness/loop-member-driver.ts";
import { waitFor } from "../../harness/wait-for.ts";
import { leaving, spanMountPath, withMembers } from "../../integration/storage/span-fixture.ts";
import { makeShrinkControl } from "../../integration/storage/storage-fixture.ts";
import { STATE, say, sh } from "./node-in-machine.ts";
import {
  enlarge,
  giveUp,
  type KnownSpan,
  noteSpan,
  provide,
  reported,
  type SpanName,
  volumeOf,
  withMember,
  withoutMember,
} from "./span-layout.ts";
import { expectWiped, type LeftDevices } from "./span-left.ts";
import { watchMagicNumber } from "./watch-magic-number.ts";

export interface WorkedSpan {
  readonly known: KnownSpan;
  readonly mounted: MountedSpan;
}

export interface SpanWork {
  make(sizeBytes: number): KnownSpan;
  /** As after a restart: staged, recovered, settled. `left`: which device each member was before. */
  mount(known: KnownSpan, left: LeftDevices): Promise<WorkedSpan>;
  /**
   * A second member, where there is none. The power may have gone between the writes of the two superblocks of the commit that adds one:
   * then the filesystem goes on without it, and what carries its superblock is never taken in again. It is given back, and another one comes.
   */
  add(span: WorkedSpan, sizeBytes: number): Promise<WorkedSpan>;
  growSecond(span: WorkedSpan, sizeBytes: number): Promise<WorkedSpan>;
  /** All but the first member. */
  sendOthersAway(span: WorkedSpan): WorkedSpan;
  /** Members that shall leave are out, wiped and given back, and their volumes are deleted. */
  removeLeaving(span: WorkedSpan): Promise<WorkedSpan>;
  unmountAndForget(span: WorkedSpan): Promise<void>;
}

/** As kubelet asks again. On a slow machine the driver may need longer for its first answer than a node waits for it. */
async function stageOnceAnswered(storage: SpanStorage, volume: SpanVolume): Promise<MountedSpan | undefined> {
  try {
    return await storage.stage(volume, 0, spanMountPath(STATE, volume));
  } catch (error) {
    if (error instanceof StorageError && error.code === "WaitingForMember") return undefined;
    throw error;
  }
}

/** Of the span that has this name outside. */
export function createSpanWork(name: SpanName, storage: SpanStorage, driver: LoopMemberDriver): SpanWork {
  const note = ({ mounted }: Pick<WorkedSpan, "mounted">, known: KnownSpan): WorkedSpan => {
    noteSpan(name, known);
    return { known, mounted: withMembers(mounted, known.members) };
  };
  const report = async (span: WorkedSpan): Promise<WorkedSpan> => {
    const found = await storage.members(span.mounted);
    await expectAgreed(storage, span.mounted, found);
    return note(span, reported(span.known, found));
  };
  const extend = async (span: WorkedSpan): Promise<WorkedSpan> => {
    const wantedBytes = span.known.members.reduce((sum, { sizeBytes = 0 }) => sum + sizeBytes, 0);
    await storage.extend(span.mounted, wantedBytes);
    return report(span);
  };
  const sendOthersAway = (span: WorkedSpan): WorkedSpan => {
    const [first, ...others] = span.known.members;
    return note(span, { ...span.known, members: first === undefined ? [] : [first, ...others.map(leaving)] });
  };
  const removeLeaving = async (span: WorkedSpan): Promise<WorkedSpan> => {
    const away = span.known.members.filter(({ wanted }) => wanted === "Removed");
    if (away.length === 0) return span;
    say("removing");
    const unwatch = watchMagicNumber(away);
    const result = await storage.shrink(span.mounted, 0, makeShrinkControl());
    unwatch();
    if (result.outcome !== "Succeeded") throw new Error(JSON.stringify(result));
    expectRemoved(away, await storage.members(span.mounted));
    for (const member of away) giveUp(driver, member);
    say("removed");
    return report(note(span, away.reduce(withoutMember, span.known)));
  };
  const addNew = async (span: WorkedSpan, sizeBytes: number): Promise<WorkedSpan> => {
    say("adding");
    const added = await extend(note(span, withMember(span.known, provide(driver, sizeBytes))));
    say("added");
    return added;
  };
  return {
    make: (sizeBytes) => {
      const known = { volumeUID: randomUUID(), formatted: false, members: [provide(driver, sizeBytes)] };
      noteSpan(name, known);
      return known;
    },
    mount: async (known, left) => {
      const volume = volumeOf(known);
      const mounted = await waitFor("the members' driver to answer", () => stageOnceAnswered(storage, volume));
      await storage.recover(mounted);
      await storage.releaseMembers(mounted);
      expectSameDevices(left, await storage.members(mounted));
      return report({ known, mounted });
    },
    add: async (span, sizeBytes) => {
      const [, second] = span.known.members;
      if (second === undefined) return addNew(span, sizeBytes);
      try {
        return await extend(span);
      } catch (error) {
        if (second.wasInside || !(error instanceof StorageError) || error.code !== "SignatureFound") throw error;
      }
      say("given-up");
      commitTwice(span);
      return addNew(await removeLeaving(sendOthersAway(span)), sizeBytes);
    },
    growSecond: async (span, sizeBytes) => {
      const [, second] = span.known.members;
      if (second === undefined || second.sizeBytes === sizeBytes) return span;
      say("growing");
      const grown = await extend(note(span, withMember(span.known, enlarge(driver, second, sizeBytes))));
      say("grown");
      return grown;
    },
    sendOthersAway,
    removeLeaving,
    unmountAndForget: async ({ mounted, known }) => {
      await storage.unstage(mounted, mounted.mountPath);
      await storage.remove(mounted);
      for (const member of known.members) giveUp(driver, member);
      noteSpan(name, undefined);
    },
  };
}

/** So that the filesystem is later than whatever was half added to it: only then is that proven to be none of its devices. */
function commitTwice({ mounted: { mountPath } }: WorkedSpan): void {
  for (const name of ["one", "two"]) sh(`touch ${mountPath}/${name}; btrfs filesystem sync ${mountPath}`);
}

/** None was formatted, or added, a second time. */
function expectSameDevices(left: LeftDevices, found: readonly FoundMember[]): void {
  for (const { name, state, deviceUUID } of found) {
    const before = left.get(name);
    if (state === "Present" && before !== undefined && deviceUUID !== before)
      throw new Error(`${name} was device ${before}, and is ${deviceUUID}`);
  }
}

function expectRemoved(away: readonly SpanMember[], found: readonly FoundMember[]): void {
  for (const member of away) {
    const state = found.find(({ name }) => name === member.name)?.state;
    if (state !== "Removed") throw new Error(`${member.name} was taken out, and is ${state}`);
    expectWiped(member);
  }
}

/** As large as its members, none of which is a stranger, and nothing is under way. */
async function expectAgreed(storage: SpanStorage, mounted: MountedSpan, found: readonly FoundMember[]): Promise<void> {
  const { capacityBytes } = await storage.freshReading(mounted);
  const present = found.filter(({ state }) => state === "Present");
  const sizeBytes = present.reduce((sum, member) => sum + (member.sizeBytes ?? Number.NaN), 0);
  const running = exclusiveOperation(mounted.fsid);
  if (capacityBytes !== sizeBytes || running !== "none" || found.some(({ state }) => state === "Stranger"))
    throw new Error(`capacity ${capacityBytes}, ${running} runs, ${JSON.stringify(found)}`);
}
