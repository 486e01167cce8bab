// Which members a span is mounted from: those whose devices carry it, looked at one by one. Whether they are all that it has is decided
// in mount-decision.ts. Nothing is written.
import { describeVolume, isAttached } from "../../member-drivers/span-member.ts";
import { probe } from "../block/probe-device.ts";
import { type SpanVolume, StorageError } from "../storage.ts";
import { identityWithin } from "./device-identity.ts";
import { assertReportedDevice } from "./known-device.ts";
import { membersLeft } from "./members-left.ts";
import { decideMount, type MountCandidate } from "./mount-decision.ts";
import { publishAll } from "./publish-members.ts";
import type { MemberDevice } from "./span-devices.ts";
import type { SpanHost } from "./span-host.ts";

/**
 * The members that carry the filesystem; throws unless they are all that it has. An agent that died may have taken one in and told
 * nobody: where one is missing, it is looked for among the others, also among those that are recorded as given back: another node may have
 * added one again, and its device says so.
 */
export async function findInside(
  host: SpanHost,
  volume: SpanVolume,
  required: readonly MemberDevice[],
): Promise<readonly MemberDevice[]> {
  for (const each of required) await assertNothingForeign(host, volume, each);
  let members = required;
  let decision = decideMount(await candidatesOf(host, volume, members));
  if (decision.kind === "refuse" && decision.code === "MembersMissing") {
    const names = new Set(required.map(({ member }) => member.name));
    const others = volume.members.filter((member) => isAttached(member) && !names.has(member.name));
    members = [...required, ...(await publishAll(host, volume, others))];
    decision = decideMount(await candidatesOf(host, volume, members));
  }
  if (decision.kind === "refuse") {
    const without = decision.code === "MembersMissing" ? await describeWithout(host, volume, members) : "";
    throw new StorageError(decision.code, `btrfs ${volume.fsid} of ${volume.handle}: ${decision.message}${without}`);
  }
  const { names } = decision;
  return members.filter(({ member }) => names.includes(member.name));
}

/** For people who look for a member by its driver: those that do not carry the filesystem, by its layout and by this node's record. */
async function describeWithout(host: SpanHost, volume: SpanVolume, members: readonly MemberDevice[]): Promise<string> {
  const carrying = new Set((await candidatesOf(host, volume, members)).map(({ name }) => name));
  const without = membersLeft(host, volume).filter(({ name }) => !carrying.has(name));
  const { former = [] } = volume;
  const seen =
    former.length === 0
      ? ""
      : `. When this node had it mounted last, it was also on ${former.map(describeVolume).join(", ")}`;
  return without.length === 0 ? seen : `. It is not on ${without.map(describeVolume).join(", ")}${seen}`;
}

async function candidatesOf(
  { tools }: SpanHost,
  volume: SpanVolume,
  members: readonly MemberDevice[],
): Promise<MountCandidate[]> {
  const candidates: MountCandidate[] = [];
  for (const each of members) {
    const identity = await identityWithin(tools, volume.fsid, each.device);
    if (identity?.valid !== true) continue;
    assertReportedDevice(volume, each, identity);
    candidates.push({ name: each.member.name, identity });
  }
  return candidates;
}

async function assertNothingForeign(
  host: SpanHost,
  volume: SpanVolume,
  { member, device }: MemberDevice,
): Promise<void> {
  const signatures = await probe(host.tools, volume, device.path);
  const foreign = signatures.find(({ uuid }) => uuid !== volume.fsid);
  if (foreign === undefined) return;
  throw new StorageError(
    "SignatureFound",
    `member ${member.name} of ${volume.handle} at ${device.path} carries a ${foreign.type} signature (UUID ` +
      `${foreign.uuid || "none"}); it is left as it is. Delete claim ${member.claim} if its data is not needed`,
  );
}
