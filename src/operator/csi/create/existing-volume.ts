// Whether the volume that exists under a name is the one that is asked for again. Pure.

import { Refusal } from "../../../contracts/csi/refusal.ts";
import type { TopologyRequirement } from "../../../contracts/gen/csi/v1/csi.ts";
import type { FilesystemLayout } from "../../../contracts/kinds/filesystem-layout.ts";
import type { LogicalVolume } from "../../../contracts/kinds/logical-volume.ts";
import { formatBytes, parseQuantity } from "../../../contracts/quantities/quantity.ts";
import { isRemoving } from "../../decide/layout-facts.ts";
import { type MemberRules, rulesOfRecords } from "../../decide/members/member-rules.ts";
import { sizesOfRecords } from "../../volumes/volume-record.ts";
import type { VolumeOrder } from "../requests/volume-order.ts";
import { isAccessibleFrom } from "./placement.ts";

/** If it is the same volume CreateVolume answers as it did the first time. Throws Refusal. */
export function requireSame(
  layout: FilesystemLayout,
  order: VolumeOrder,
  requirement: TopologyRequirement | undefined,
): void {
  if (isRemoving(layout)) throw new Refusal("ABORTED", `${order.handle} is being deleted; try again when it is gone`);
  const differences = differencesOf(layout, order);
  const nodeName = layout.spec.nodeName;
  if (nodeName !== undefined && order.backend !== "span" && !isAccessibleFrom(requirement, nodeName))
    differences.push(`it is on node ${nodeName}, which the request does not allow`);
  if (differences.length > 0)
    throw new Refusal("ALREADY_EXISTS", `${order.handle} exists and differs: ${differences.join("; ")}`);
}

/** Of the backend lvm: a recreated LogicalVolume no longer says what it began as. Throws Refusal. */
export function requireSameSource({ metadata, spec }: LogicalVolume, order: VolumeOrder): void {
  if (spec.volumeID !== undefined || spec.source === order.source) return;
  const began = spec.source === undefined ? "empty" : `as a copy of ${spec.source}`;
  const asked = order.source === undefined ? "an empty one" : `a copy of ${order.source}`;
  throw new Refusal("ALREADY_EXISTS", `${metadata.name} exists and began ${began}; asked for is ${asked}`);
}

/** As above, of a volume that was begun and has no layout yet: what its LogicalVolume says of it. Throws Refusal. */
export function requireSameStart({ spec }: LogicalVolume, order: VolumeOrder): void {
  // A copy began at least as large as its source was then.
  const firstBytes = order.source === undefined ? order.memberBytes : parseQuantity(spec.size);
  const differences = describeDifferences([
    ["volumeMode", spec.volumeMode ?? "Filesystem", order.volumeMode],
    ["first size", text(parseQuantity(spec.size)), text(firstBytes)],
    ["device class", spec.deviceClass, order.deviceClass ?? spec.deviceClass],
    claimPair(spec.claimRef, order),
  ]);
  if (differences.length > 0)
    throw new Refusal("ALREADY_EXISTS", `${order.handle} is being made and differs: ${differences.join("; ")}`);
}

type Pair = readonly [what: string, is: string | undefined, asked: string | undefined];

function claimPair(claimRef: FilesystemLayout["spec"]["claimRef"], { claim }: VolumeOrder): Pair {
  return ["claim", `${claimRef?.namespace}/${claimRef?.name}`, `${claim.namespace}/${claim.name}`];
}

function differencesOf({ spec, metadata }: FilesystemLayout, order: VolumeOrder): string[] {
  const sizes = sizesOfRecords(metadata.annotations);
  const deviceClass = spec.members?.[0]?.source.logicalVolume?.deviceClass;
  return describeDifferences([
    ["size", text(sizes.requestedBytes), text(order.requestedBytes)],
    ["initialSize", text(sizes.initialBytes), text(order.initialBytes)],
    ["maxSize", text(sizes.maxBytes), text(order.maxBytes)],
    ["backend", spec.backend, order.backend],
    ["members", rulesText(rulesOfRecords(metadata.annotations)), rulesText(order.memberRules)],
    // An order without a device class takes the one that the node gave.
    ["device class", deviceClass, order.deviceClass ?? deviceClass],
    ["volumeMode", spec.volumeMode ?? "Filesystem", order.volumeMode],
    ["filesystem type", spec.fsType, order.fsType],
    claimPair(spec.claimRef, order),
  ]);
}

function describeDifferences(pairs: readonly Pair[]): string[] {
  return pairs
    .filter(([, is, asked]) => is !== asked)
    .map(([what, is, asked]) => `${what} is ${is ?? "not set"}, asked for is ${asked ?? "none"}`);
}

function rulesText(rules: MemberRules | undefined): string | undefined {
  if (rules === undefined) return undefined;
  const { className, maxMembers, spareMembers, strategy, carried } = rules;
  const carries = carried && [...carried.labels, ...carried.annotations].join(", ");
  return `${maxMembers} of class ${className}, ${spareMembers} spare, ${strategy}${carries ? `, with ${carries}` : ""}`;
}

function text(bytes: number | undefined): string | undefined {
  return bytes === undefined ? undefined : `${formatBytes(bytes)} (${bytes} bytes)`;
}
