// FilesystemLayout: what a filesystem is made of, cluster-scoped and named by the volume handle. The operator writes the spec,
// the agent of its node the status; the emergency grant is the policy-engine's.
import * as z from "zod";
import type { KubeObject, Resource } from "../kubernetes/object.ts";
import { GROUP, VERSION } from "../names.ts";
import {
  conditions,
  epochNumber,
  keyedList,
  type NodeExtensions,
  observedGeneration,
  quantity,
  stays,
  timestamp,
} from "../schema/schema.ts";
import { claimSource } from "./claim-source.ts";
import { claimReference, sizeTarget } from "./filesystem.ts";
import { lastTrim, trimRequest } from "./trim.ts";

/** Those whose volumes our own CSI drivers make. */
export const OWN_BACKENDS = ["loop", "lvm", "span"] as const;
export type OwnBackend = (typeof OWN_BACKENDS)[number];
/** And `claim`: an ordinary claim of another driver, which is its own only member. */
const BACKENDS = [...OWN_BACKENDS, "claim"] as const;
export type Backend = (typeof BACKENDS)[number];
export const FS_TYPES = ["btrfs", "ext4", "xfs"] as const;
export type FsType = (typeof FS_TYPES)[number];
/** As Kubernetes has them on claims: mounted, or the device itself. */
export const VOLUME_MODES = ["Filesystem", "Block"] as const;
export type VolumeMode = (typeof VOLUME_MODES)[number];

/** Of a file in a directory, or of a device: no path. */
export const FILE_NAME = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/;

const memberName = z.string().max(63).meta({ description: "The member's name within its filesystem; never reused." });

const logicalVolumeSource = z
  .object({
    name: z.string().max(253).meta({ description: "The LogicalVolume." }),
    volumeID: z
      .string()
      .max(128)
      .regex(FILE_NAME)
      .meta({ description: "The volume's name in LVM: the UID of its LogicalVolume at creation." }),
    deviceClass: z.string().max(63).meta({ description: "The device class of the volume." }),
  })
  .meta({ description: "Backend lvm: an LVM volume on the node." });

const memberSpec = z.object({
  name: memberName,
  size: quantity("Size at creation. Absent on a rebuilt layout: the size found on the node.").optional(),
  state: z
    .enum(["Present", "Spare", "Removed"])
    .meta({
      description:
        "Spare: the device stays on the node, outside of the filesystem, until an emergency or a target adds it. " +
        "Removed: the agent deletes the member and its data. Absent: Present.",
    })
    .optional(),
  replaces: z
    .object({
      member: memberName,
      decidedAt: timestamp("The target that this member was created for."),
    })
    .meta({
      description:
        "The member that leaves once this one is in the filesystem: a larger one, or the largest of several smaller ones. Absent: it replaces no member.",
    })
    .optional(),
  refused: z
    .string()
    .max(1024)
    .meta({
      description:
        "Why the node has not added it: its device carries data or a signature. It is left untouched and does not count as " +
        "capacity; it is deleted only with the volume, or when a person sets its state to Removed. Absent: not refused.",
    })
    .optional(),
  source: z
    .object({
      loop: z
        .object({
          file: z.string().max(128).regex(FILE_NAME).meta({ description: "File name in the node's member directory." }),
        })
        .meta({ description: "Backend loop: a sparse file on the node." })
        .optional(),
      logicalVolume: logicalVolumeSource.optional(),
      claim: claimSource.optional(),
    })
    .meta({ description: "The source of its block device. Exactly one field is set, that of the backend." }),
});
export type MemberSpec = z.infer<typeof memberSpec>;

/** Room that the agent may take by itself when minAvailable is crossed, granted in advance. */
export const emergencyGrant = z
  .object({
    size: quantity("Maximum size that the agent may grow to by itself."),
    minAvailable: quantity("The agent grows when fewer bytes than this are available."),
    expiry: timestamp("When the grant expires."),
    epoch: epochNumber("The epoch of the leader that granted it; an epoch lower than the highest seen is refused."),
  })
  .meta({
    description:
      "Emergency grant by the policy-engine: how far the agent may grow the filesystem at once when free space is low. Absent: no grant.",
  });
export type EmergencyGrant = z.infer<typeof emergencyGrant>;

export const filesystemLayoutSpec = z
  .object({
    claimRef: claimReference.optional(),
    volumeUID: z.string().meta({ description: "The UID that the volume's names and its fsid derive from." }).optional(),
    backend: z.enum(BACKENDS).meta({ description: "The source of its members." }).optional(),
    fsType: z
      .enum(FS_TYPES)
      .meta({ description: "The type of the filesystem. Absent for a raw block volume." })
      .optional(),
    volumeMode: z
      .enum(VOLUME_MODES)
      .meta({
        description:
          "Block: pods use the device itself; it is never formatted, and only a raised request extends it. Absent: Filesystem.",
      })
      .optional(),
    nodeName: z.string().meta({ description: "The node whose agent manages it." }).optional(),
    members: keyedList(
      memberSpec.meta({ description: "The wanted state of a member." }),
      ["name"],
      // As many as a class allows, the one that comes before others leave in its favour, and two that carry something.
      7,
      "The devices under the filesystem.",
    ).optional(),
    target: sizeTarget.optional(),
    trim: trimRequest.optional(),
    emergency: emergencyGrant.optional(),
  })
  .meta({
    description:
      "The members that the filesystem should consist of. Written by Tidemark only; do not edit, it locates the data.",
    "x-kubernetes-validations": [stays("volumeUID"), stays("backend"), stays("fsType"), stays("volumeMode")],
  } satisfies NodeExtensions);
export type FilesystemLayoutSpec = z.infer<typeof filesystemLayoutSpec>;

export const OPERATION_KINDS = ["Extend", "Shrink"] as const;
export type OperationKind = (typeof OPERATION_KINDS)[number];
export const OPERATION_OUTCOMES = ["Succeeded", "Cancelled", "FloorReached", "Failed"] as const;

const operationFields = {
  kind: z.enum(OPERATION_KINDS).meta({ description: "Extend or Shrink." }),
  from: quantity("The size before."),
  to: quantity("The size asked for."),
  epoch: epochNumber("The epoch of the leader whose target or grant it carries out."),
  decidedAt: timestamp("The target that it carries out. Absent for an emergency.").optional(),
  emergency: z.boolean().meta({ description: "Whether the agent started it from its emergency grant." }).optional(),
  startedAt: timestamp("When it started."),
};

export const operation = z.object({
  ...operationFields,
  step: z.string().max(63).meta({ description: "The current step." }),
});
export type Operation = z.infer<typeof operation>;

export const lastOperation = z
  .object({
    ...operationFields,
    outcome: z.enum(OPERATION_OUTCOMES).meta({
      description: "How it ended: Succeeded, Cancelled, FloorReached (the smallest safe size), or Failed.",
    }),
    reached: quantity("The size at its end."),
    floor: quantity(
      "The smallest safe size, if that ended the operation, or ended the replacement of a member that this operation undoes.",
    ).optional(),
    used: quantity("Used bytes at that time. Until they change, no size below the floor is requested.").optional(),
    reason: z
      .string()
      .meta({
        description:
          "The reason, one word from docs/reference/reasons.md. Absent if it succeeded without reaching a floor.",
      })
      .optional(),
    message: z.string().max(32768).meta({ description: "The reason in a sentence with figures." }).optional(),
    endedAt: timestamp("When it ended."),
  })
  .meta({ description: "The last operation. Absent: none has ended yet." });
export type LastOperation = z.infer<typeof lastOperation>;

export const filesystemLayoutStatus = z
  .object({
    observedGeneration: observedGeneration.optional(),
    fsid: z.string().meta({ description: "The filesystem's UUID in its superblock." }).optional(),
    nodeName: z.string().meta({ description: "The node whose agent wrote this status." }).optional(),
    mounted: z
      .boolean()
      .meta({
        description:
          "Mounted on its node, so that it is measured and can be resized. For spans: true from before the first member is " +
          "staged until the last one is released.",
      })
      .optional(),
    epoch: epochNumber("The highest epoch that the agent has seen.").optional(),
    members: keyedList(
      z
        .object({
          name: memberName,
          deviceUUID: z.string().meta({ description: "The device's UUID in its superblock." }).optional(),
          devid: z.int().meta({ description: "The device's number within a btrfs filesystem." }).optional(),
          size: quantity("The present size. If missing or removed: the last known size."),
          allocated: quantity(
            "Bytes that the filesystem has allocated on it, which must be moved before it can leave. 0 is exact, other values are accurate to a " +
              "tenth of the size. Absent: unknown, or not in the filesystem.",
          ).optional(),
          state: z.enum(["Present", "Missing", "Spare", "Removed"]).meta({
            description:
              "Present: found on the node. Missing: no longer found on the node. Spare: its device is on the node but " +
              "not in the filesystem. Removed: deleted with its data.",
          }),
        })
        .meta({ description: "The observed state of a member." }),
      ["name"],
      10,
      "The members as the node has them.",
    ).optional(),
    refused: keyedList(
      z
        .object({
          name: memberName,
          message: z.string().max(1024).meta({ description: "What was found on its device." }),
        })
        .meta({ description: "A member that was not added because its device carries something." }),
      ["name"],
      10,
      "Members whose devices carry something: they are left as they are, outside of the filesystem. Absent: none.",
    ).optional(),
    shrinksUnmounted: z
      .boolean()
      .meta({
        description:
          "Whether its node can shrink it while unmounted, protected by a thin snapshot that restores it if the shrink fails.",
      })
      .optional(),
    immovable: z
      .string()
      .max(1024)
      .meta({
        description:
          "Why data cannot be moved between members now, for example because of snapshots. Until then only members that " +
          "hold no data can leave. Absent: data can be moved, or unknown.",
      })
      .optional(),
    operation: operation
      .nullable()
      .meta({
        description: "The running operation, recorded before its first side effect. Absent: no operation is running.",
      })
      .optional(),
    lastOperation: lastOperation.optional(),
    endedDecidedAt: timestamp(
      "The decidedAt of the last target that was completed or abandoned. Emergencies do not change it.",
    ).optional(),
    lastTrim: lastTrim.optional(),
    conditions: conditions.optional(),
  })
  .meta({ description: "What the node's agent observes and does." });
export type FilesystemLayoutStatus = z.infer<typeof filesystemLayoutStatus>;

export interface FilesystemLayout extends KubeObject {
  kind: "FilesystemLayout";
  spec: FilesystemLayoutSpec;
  status?: FilesystemLayoutStatus | undefined;
}

export const FILESYSTEM_LAYOUTS: Resource<FilesystemLayout> = {
  group: GROUP,
  version: VERSION,
  plural: "filesystemlayouts",
  kind: "FilesystemLayout",
  namespaced: false,
};
