// FilesystemLayout: what a filesystem is made of, cluster-scoped and named by the volume handle. The operator writes the spec,
// the agent of its node the status; the emergency grant is the policy-engine's.
import { z } from "zod";
import type { KubeObject, Resource } from "../kube/object.ts";
import { claimReference, sizeTarget } from "./filesystem.ts";
import { GROUP, VERSION } from "./names.ts";
import {
  conditions,
  epochNumber,
  keyedList,
  type NodeExtensions,
  observedGeneration,
  quantity,
  stays,
  timestamp,
} from "./schema.ts";
import { lastTrim, trimRequest } from "./trim.ts";

/** Those whose volumes our own CSI drivers make. */
export const OWN_BACKENDS = ["loop", "lvm", "span"] as const;
export type OwnBackend = (typeof OWN_BACKENDS)[number];
/** And `claim`: an ordinary claim of another driver, which is its own only member. */
export const BACKENDS = [...OWN_BACKENDS, "claim"] as const;
export type Backend = (typeof BACKENDS)[number];
export const FS_TYPES = ["btrfs", "ext4", "xfs"] as const;
export type FsType = (typeof FS_TYPES)[number];
/** As Kubernetes has them on claims: mounted, or the device itself. */
export const VOLUME_MODES = ["Filesystem", "Block"] as const;
export type VolumeMode = (typeof VOLUME_MODES)[number];

/** Of a file in a directory, or of a device: no path. */
export const FILE_NAME = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/;

const memberName = z
  .string()
  .max(63)
  .meta({ description: "Names the member within its filesystem; never used again." });

const secretReference = z
  .object({
    namespace: z.string().meta({ description: "The Secret's namespace." }),
    name: z.string().meta({ description: "The Secret's name." }),
  })
  .meta({ description: "A Secret that the member's driver wants to be called with." });

/** A volume of any CSI driver, as its claim, its PersistentVolume and its VolumeAttachment tell of it. */
const claimSource = z
  .object({
    name: z.string().meta({
      description: "The member claim, in the namespace tidemark-volumes; for the backend claim the claim itself.",
    }),
    uid: z.string().meta({ description: "Its UID; absent until it is made." }).optional(),
    volumeName: z.string().meta({ description: "Its PersistentVolume; absent until it is bound." }).optional(),
    persistentVolumeUID: z.string().meta({ description: "The UID of that." }).optional(),
    driver: z.string().meta({ description: "The CSI driver of that." }).optional(),
    volumeHandle: z.string().meta({ description: "What the driver calls it." }).optional(),
    volumeAttributes: z
      .record(z.string(), z.string().meta({ description: "As the driver's provisioner wrote it." }))
      .meta({ description: "What the driver wants to be told of it." })
      .optional(),
    capacity: quantity(
      "What its PersistentVolume has; once that is the member's size, the device can be expanded on its node.",
    ).optional(),
    nodeStageSecretRef: secretReference.optional(),
    nodePublishSecretRef: secretReference.optional(),
    nodeExpandSecretRef: secretReference.optional(),
    attachment: z
      .object({
        nodeName: z.string().meta({ description: "Where it is attached." }),
        name: z.string().meta({ description: "The VolumeAttachment; absent where the driver needs none." }).optional(),
        uid: z
          .string()
          .meta({ description: "Its UID: one that is made again under that name tells something else." })
          .optional(),
        context: z
          .record(z.string(), z.string().meta({ description: "As the driver's attacher wrote it." }))
          .meta({ description: "What attaching it has told, for the driver's node service." })
          .optional(),
      })
      .meta({ description: "Absent: it is attached nowhere." })
      .optional(),
  })
  .meta({
    description: "A member claim of any CSI class, for the backend span; for the backend claim the claim itself.",
  });
export type ClaimSource = z.infer<typeof claimSource>;

const logicalVolumeSource = z
  .object({
    name: z.string().max(253).meta({ description: "The LogicalVolume." }),
    volumeID: z
      .string()
      .max(128)
      .regex(FILE_NAME)
      .meta({ description: "What LVM calls the volume: the UID of that when it was made." }),
    deviceClass: z.string().max(63).meta({ description: "The device class that it is of." }),
  })
  .meta({ description: "A volume of LVM on the node, for the backend lvm." });

const memberSpec = z.object({
  name: memberName,
  size: quantity("The size it was made with; absent on a rebuilt layout: as found on the node.").optional(),
  state: z
    .enum(["Present", "Spare", "Removed"])
    .meta({
      description:
        "Spare keeps the member's device on the node and out of the filesystem, until an emergency or a target takes it in; " +
        "Removed asks the agent to delete the member and its data; absent means Present.",
    })
    .optional(),
  replaces: z
    .object({
      member: memberName,
      decidedAt: timestamp("The target that it was made for."),
    })
    .meta({
      description:
        "A member that leaves once this one is in the filesystem: a larger one, or the largest of several smaller ones. Absent: it replaces none.",
    })
    .optional(),
  refused: z
    .string()
    .max(1024)
    .meta({
      description:
        "Why its node has not taken it in: its device carries something, which may be somebody's data. It is left as it is, and counts as no " +
        "room; it is never deleted but with the volume, or where a person sets its state to Removed. Absent: nothing is known against it.",
    })
    .optional(),
  source: z
    .object({
      loop: z
        .object({
          file: z.string().max(128).regex(FILE_NAME).meta({ description: "File name in the node's member directory." }),
        })
        .meta({ description: "A sparse file on the node, for the backend loop." })
        .optional(),
      logicalVolume: logicalVolumeSource.optional(),
      claim: claimSource.optional(),
    })
    .meta({ description: "Where its block device comes from; exactly one of its fields is set, that of the backend." }),
});
export type MemberSpec = z.infer<typeof memberSpec>;

/** Room that the agent may take by itself when minAvailable is crossed, granted in advance. */
export const emergencyGrant = z
  .object({
    size: quantity("The agent may grow up to this size by itself."),
    minAvailable: quantity("It does so when fewer bytes than this are available."),
    expiry: timestamp("Not after this."),
    epoch: epochNumber("The number of the leader that granted it; a lower one than was seen before is refused."),
  })
  .meta({
    description:
      "Granted in advance by the policy-engine: what the agent may grow to by itself, at once, when little is available. Absent: nothing.",
  });
export type EmergencyGrant = z.infer<typeof emergencyGrant>;

export const filesystemLayoutSpec = z
  .object({
    claimRef: claimReference.optional(),
    volumeUID: z
      .string()
      .meta({ description: "The UID that the volume's names and its fsid are made from." })
      .optional(),
    backend: z.enum(BACKENDS).meta({ description: "Where its members come from." }).optional(),
    fsType: z
      .enum(FS_TYPES)
      .meta({ description: "The type of the filesystem; a raw block volume has none." })
      .optional(),
    volumeMode: z
      .enum(VOLUME_MODES)
      .meta({
        description:
          "Block: pods get the device itself; it is never formatted, and only a raised request extends it. Absent means Filesystem.",
      })
      .optional(),
    nodeName: z.string().meta({ description: "The node whose agent owns it." }).optional(),
    members: keyedList(
      memberSpec.meta({ description: "A member as it should be." }),
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
    description: "What the filesystem should be made of. Written by Tidemark only: it is the map of the data.",
    "x-kubernetes-validations": [stays("volumeUID"), stays("backend"), stays("fsType"), stays("volumeMode")],
  } satisfies NodeExtensions);
export type FilesystemLayoutSpec = z.infer<typeof filesystemLayoutSpec>;

export const OPERATION_KINDS = ["Extend", "Shrink"] as const;
export const OPERATION_OUTCOMES = ["Succeeded", "Cancelled", "FloorReached", "Failed"] as const;

const operationFields = {
  kind: z.enum(OPERATION_KINDS).meta({ description: "Whether it makes the filesystem larger or smaller." }),
  from: quantity("The size before."),
  to: quantity("The size asked for."),
  epoch: epochNumber("The number of the leader whose target or grant it carries out."),
  decidedAt: timestamp("Which target it carries out; absent for an emergency.").optional(),
  emergency: z.boolean().meta({ description: "Started by the agent from its grant." }).optional(),
  startedAt: timestamp("When it began."),
};

export const operation = z.object({
  ...operationFields,
  step: z.string().max(63).meta({ description: "What is being done now." }),
});
export type Operation = z.infer<typeof operation>;

export const lastOperation = z
  .object({
    ...operationFields,
    outcome: z.enum(OPERATION_OUTCOMES).meta({
      description: "How it ended: as asked for, cancelled on the way, at the smallest safe size, or in an error.",
    }),
    reached: quantity("The size at its end."),
    floor: quantity(
      "The smallest size that the filesystem called safe, where that ended it, or ended the replacement of a member which this one takes back.",
    ).optional(),
    used: quantity("What was in use then: until that has changed, no less than the floor is asked for.").optional(),
    reason: z
      .string()
      .meta({
        description:
          "Why it ended so, in one word of docs/reference/reasons.md; absent when it succeeded, but for a floor.",
      })
      .optional(),
    message: z.string().max(32768).meta({ description: "Why it ended so, in a sentence with figures." }).optional(),
    endedAt: timestamp("When it ended."),
  })
  .meta({ description: "The operation that ended last, and how. Absent: none has ended yet." });
export type LastOperation = z.infer<typeof lastOperation>;

export const filesystemLayoutStatus = z
  .object({
    observedGeneration: observedGeneration.optional(),
    fsid: z.string().meta({ description: "The filesystem's UUID, as it stands in its superblock." }).optional(),
    nodeName: z.string().meta({ description: "The node whose agent reports." }).optional(),
    mounted: z
      .boolean()
      .meta({
        description:
          "Staged on its node, so that it is measured and can be resized. A span is said to be from before its first member is " +
          "touched there until the last one is let go of.",
      })
      .optional(),
    epoch: epochNumber("The highest epoch the agent has seen for it.").optional(),
    members: keyedList(
      z
        .object({
          name: memberName,
          deviceUUID: z.string().meta({ description: "The UUID of the device in its superblock." }).optional(),
          devid: z.int().meta({ description: "The device's number within a btrfs filesystem." }).optional(),
          size: quantity("Its present size; the last known one where it is missing or removed."),
          allocated: quantity(
            "What the filesystem has allocated of it, and would have to move for it to leave: 0 is known to be just that, any other figure to a " +
              "tenth of the size. Absent: not known, or it is not in the filesystem.",
          ).optional(),
          state: z.enum(["Present", "Missing", "Spare", "Removed"]).meta({
            description:
              "Present: found on the node. Missing: made there, and not found any more. Spare: its device is on the node, and " +
              "no part of the filesystem. Removed: deleted with its data.",
          }),
        })
        .meta({ description: "A member as it is." }),
      ["name"],
      10,
      "The members as the node has them.",
    ).optional(),
    refused: keyedList(
      z
        .object({
          name: memberName,
          message: z.string().max(1024).meta({ description: "What its device carries." }),
        })
        .meta({ description: "A member that is not taken in." }),
      ["name"],
      10,
      "Members whose devices carry something: they are left as they are, outside of the filesystem. Absent: none.",
    ).optional(),
    shrinksUnmounted: z
      .boolean()
      .meta({
        description:
          "Its node can make it smaller while it is not mounted, behind a snapshot of its thin pool that takes back whatever goes wrong.",
      })
      .optional(),
    immovable: z
      .string()
      .max(1024)
      .meta({
        description:
          "Why no data is moved from one member to another as things are: snapshots for one. Until that has passed, only members that " +
          "hold nothing leave. Absent: data can be moved, or that is not known yet.",
      })
      .optional(),
    operation: operation
      .nullable()
      .meta({ description: "The running operation, recorded before its first side effect. Absent: none runs." })
      .optional(),
    lastOperation: lastOperation.optional(),
    endedDecidedAt: timestamp(
      "The target that was carried out or given up last, as its decision names it; no emergency changes it. Later ones are decided after it.",
    ).optional(),
    lastTrim: lastTrim.optional(),
    conditions: conditions.optional(),
  })
  .meta({ description: "What the agent of its node finds and does." });
export type FilesystemLayoutStatus = z.infer<typeof filesystemLayoutStatus>;

export interface FilesystemLayout extends KubeObject {
  kind: "FilesystemLayout";
  spec: FilesystemLayoutSpec;
  status?: FilesystemLayoutStatus;
}

export const FILESYSTEM_LAYOUTS: Resource<FilesystemLayout> = {
  group: GROUP,
  version: VERSION,
  plural: "filesystemlayouts",
  kind: "FilesystemLayout",
  namespaced: false,
};
