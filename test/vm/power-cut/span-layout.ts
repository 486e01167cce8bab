// What the cluster knows of the spans inside the machine that loses its power, and what its operator and its provisioner do about them. A
// member's volume is a file on the other disk, which lasts once its provisioner has answered.
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import type { SpanMember } from "../../../src/agent/member-drivers/span-member.ts";
import type { FoundMember, SpanVolume } from "../../../src/agent/storage/storage.ts";
import type { LoopMemberDriver } from "../../harness/loop-member-driver.ts";
import { DRIVER, makeSpan } from "../../integration/storage/span-fixture.ts";
import { knownOutside, noteOutside } from "./known-outside.ts";
import { sh, VOLUMES } from "./node-in-machine.ts";

export interface KnownSpan {
  readonly volumeUID: string;
  /** It was mounted once. */
  readonly formatted: boolean;
  readonly members: readonly SpanMember[];
}

/** One that lasts, and one that each boot makes anew: for the sake of its formatting. */
export type SpanName = "lasting" | "fresh";

export function knownSpan(name: SpanName): KnownSpan | undefined {
  return knownOutside<KnownSpan | null>(name) ?? undefined;
}

export function noteSpan(name: SpanName, known: KnownSpan | undefined): KnownSpan | undefined {
  noteOutside(name, known ?? null);
  return known;
}

export function volumeOf({ volumeUID, formatted, members }: KnownSpan): SpanVolume {
  return { ...makeSpan(members, volumeUID), formatted };
}

/** Where a member's volume is; with the driver away, too. */
export function fileOf({ volume }: SpanMember): string {
  return `${VOLUMES}/volumes/${volume?.volumeHandle}`;
}

/** Provisioned, bound, attached; of a name that none had before. */
export function provide(driver: LoopMemberDriver, sizeBytes: number): SpanMember {
  const volumeHandle = randomUUID();
  driver.createVolume(volumeHandle, sizeBytes);
  sh(`sync -f ${VOLUMES}`);
  return {
    ...{ name: `m-${volumeHandle}`, claim: `claim-${volumeHandle}`, wanted: "Present", wasInside: false },
    ...{ sizeBytes, capacityBytes: sizeBytes, attachment: { context: { attached: "yes" } } },
    volume: { driver: DRIVER, volumeHandle, volumeAttributes: {} },
  };
}

export function enlarge(driver: LoopMemberDriver, member: SpanMember, sizeBytes: number): SpanMember {
  driver.growVolume(member.volume?.volumeHandle ?? "", sizeBytes);
  sh(`sync -f ${VOLUMES}`);
  return { ...member, sizeBytes, capacityBytes: sizeBytes };
}

/** Once it is Removed. The power may have gone before that was known. */
export function giveUp(driver: LoopMemberDriver, member: SpanMember): void {
  if (existsSync(fileOf(member))) driver.deleteVolume(member.volume?.volumeHandle ?? "");
}

/** As the layout's status has it, once the agent has told what it found. */
export function reported(known: KnownSpan, found: readonly FoundMember[]): KnownSpan {
  const members = known.members.map((member): SpanMember => {
    const { state, deviceUUID, devid } = found.find(({ name }) => name === member.name) ?? {};
    if (state !== "Present" || deviceUUID === undefined || devid === undefined) return member;
    return { ...member, wasInside: true, reported: { deviceUUID, devid } };
  });
  return { ...known, formatted: true, members };
}

export function withMember(known: KnownSpan, changed: SpanMember): KnownSpan {
  const others = known.members.filter(({ name }) => name !== changed.name);
  return { ...known, members: [...others, changed] };
}

export function withoutMember(known: KnownSpan, { name }: SpanMember): KnownSpan {
  return { ...known, members: known.members.filter((member) => member.name !== name) };
}
