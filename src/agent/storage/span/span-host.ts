// What the span adapter's steps work with: this node's programs, files and members' devices.
import type { Clock } from "../../../process/clock.ts";
import type { FilePort } from "../../../process/file-port.ts";
import type { Logger } from "../../../process/log.ts";
import type { BlockDevice } from "../../member-drivers/block-device.ts";
import type { MemberDevices } from "../../member-drivers/member-devices.ts";
import type { SpanMember } from "../../member-drivers/span-member.ts";
import type { SpanVolume } from "../storage.ts";
import type { Tools } from "../tools.ts";

export interface SpanHost {
  /** Where the node remembers how far a span's formatting and removals have come. */
  readonly recordDirectory: string;
  readonly devices: MemberDevices;
  readonly tools: Tools;
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
  /** Of devices in mounted filesystems, by volume, member and devid. */
  readonly deviceUUIDs: Map<string, string>;
  /** Of spares that this process has prepared, by volume and member. */
  readonly spares: Map<string, BlockDevice>;
  /** Of members whose devices were not used when they were looked at last, by volume and member. */
  readonly refused: Map<string, Refusal>;
}

export interface Refusal {
  readonly why: string;
  /** When it was looked at, on the monotonic clock. */
  readonly lookedMs: number;
}

/** By which `spares` and `refused` know a member of a volume. */
export function memberKey({ handle }: Pick<SpanVolume, "handle">, { name }: Pick<SpanMember, "name">): string {
  return `${handle}/${name}`;
}
