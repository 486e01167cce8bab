// Whether the volume that exists under a name is the one that is asked for again. Pure.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { LogicalVolume } from "../../api/logical-volume.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { TopologyRequirement } from "../../gen/csi/v1/csi.ts";
import { formatBytes, parseQuantity } from "../../units/quantity.ts";
import { type MemberRules, rulesOfRecords } from "../member/member-rules.ts";
import { isRemoving } from "../volume/layout-facts.ts";
import { sizesOfRecords } from "../volume/volume-record.ts";
import { isAccessibleFrom } from "./placement.ts";
import type { VolumeOrder } from "./volume-order.ts";

/** Undefined: it is the same volume, and CreateVolume answers as it did the first time. */
export function refusalOfExisting(
  layout: FilesystemLayout,
  order: VolumeOrder,
  requirement: TopologyRequirement | undefined,
): Refusal | undefined {
  if (isRemoving(layout)) return new Refusal("ABORTED", `${order.handle} is being deleted; try again when it is gone`);
  const differences = differencesOf(layout, order);
  const nodeName = layout.spec.nodeName;
  if (nodeName !== undefined && order.backend !== "span" && !isAccessibleFrom(requirement, nodeName))
    differences.push(`it is on node ${nodeName}, which the request does not allow`);
  if (differences.length === 0) return undefined;
  return new Refusal("ALREADY_EXISTS", `${order.handle} exists and differs: ${differences.join("; ")}`);
}

/** Of the backend lvm: one that was made again does not say any more what it began as. */
export function refusalOfOtherSource({ metadata, spec }: LogicalVolume, order: VolumeOrder): Refusal | undefined {
  if (spec.volumeID !== undefined || spec.source === order.source) return undefined;
  const began = spec.source === undefined ? "empty" : `as a copy of ${spec.source}`;
  const asked = order.source === undefined ? "an empty one" : `a copy of ${order.source}`;
  return new Refusal("ALREADY_EXISTS", `${metadata.name} exists and began ${began}; asked for is ${asked}`);
}

/** As above, of a volume that was begun and has no layout yet: what its LogicalVolume says of it. */
export function refusalOfStarted({ spec }: LogicalVolume, order: VolumeOrder): Refusal | undefined {
  // A copy began at least as large as its source was then.
  const firstBytes = order.source === undefined ? order.memberBytes : parseQuantity(spec.size);
  const differences = describeDifferences([
    ["volumeMode", spec.volumeMode ?? "Filesystem", order.volumeMode],
    ["first size", text(parseQuantity(spec.size)), text(firstBytes)],
    ["device class", spec.deviceClass, order.deviceClass ?? spec.deviceClass],
    claimPair(spec.claimRef, order),
  ]);
  if (differences.length === 0) return undefined;
  return new Refusal("ALREADY_EXISTS", `${order.handle} is being made and differs: ${differences.join("; ")}`);
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
    // Whoever names none takes what the node gave.
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
