// Every reason that a plan, a condition or an event can carry. They are public API: documented in docs/reference/reasons.md,
// and none stands here that nothing says. What had another name before: docs/reference/final-names.md.

/** Why a size changes. */
export const CHANGE_REASONS = [
  "RuleFired", // a rule of the policy holds
  "BelowMinAvailable", // available bytes are under limits.minAvailable
  "BelowMinimum", // the size is under limits.min
  "RequestRaised", // the claim's request was raised over the size
  "EmergencySpent", // the agent spent its emergency grant
  "AttachSlotsNeeded", // a pod lacks the attach slots that the filesystem's many members take
] as const;
export type ChangeReason = (typeof CHANGE_REASONS)[number];

/** Why a size stays. */
export const HOLD_REASONS = [
  "WithinBounds", // no rule holds
  "NoPolicy", // no policy selects the claim
  "PolicyInvalid", // the policy does not compile
  "PolicySuspended",
  "Paused", // by the claim's annotation: what its policy's rules ask for waits
  "PauseUnreadable", // the annotation cannot be read as a time, or is too far ahead: nothing shrinks
  "RecommendOnly", // a rule holds, its direction's mode is Recommend
  "ApprovalRequired", // a change is planned, its mode is Approve, and no ScalingApproval covers it
  "CoolingDown",
  "RulePending", // the rule holds, not yet for its `for`
  "OutsideWindow",
  "WindowTooShort", // two windows in a row ended a shrink before its first step was done
  "TooManyChanges", // maxPerDay, a ceiling on rates, or the engine's own rate limits
  "OperationsAtLimit", // as many operations run at once as a ceiling allows: it waits for its turn
  "StepTooSmall", // the change is under minStep
  "AtMaximum", // limits.max or a ceiling is reached
  "AtMinimum",
  "CeilingReached", // a ClusterVolumePolicy's ceiling forbids it
  "QuotaExceeded", // a ResourceQuota of the namespace on the members' class, or the default budget, forbids it
  "ExtendDidNotHelp", // the rule held after its extend, and would at any size
  "WouldFlap", // after the shrink an Extend rule would hold, or two shrinks were taken back within a week
  "NotEnoughHistory", // gaps in the rule's window
  "StaleMetrics", // no fresh facts
  "ClockDiffers", // the node's clock and the engine's differ: nothing shrinks; an Event on the NodeStorage says it, too
  "MetricsInconsistent", // NaN, negative, future, or capacity that lags a resize
  "RuleError", // a rule failed at run time
  "OperationInProgress",
  "ShrinkFloorReached", // the filesystem cannot safely give that much
  "DataImmovable", // so ends a shrink that had to move data which stays where it is, for snapshots for one
  "ShrinkNotCrashSafe", // the filesystem can shrink, but a crash in the middle of it can lose data; or what guards it cannot be had
  "ShrinkAtUnmount", // decided; it is made smaller when it is unmounted within the window
  "ShrinkUnsupported", // the filesystem type or backend cannot shrink
  "ShrinkCancelled", // cancelled by a writer; cooling down
  "FilesystemBusy", // another process' balance or the like runs on it: a shrink waits for its end
  "NotMounted",
  "ReadOnly", // its node begins nothing until it takes writes again
  "NoSlotFree", // its members could be merged, but a larger one that takes their place finds no attach slot, or no room in the layout
  "RawBlockVolume", // it has no filesystem, so no fill level: only a raised request extends it
  "Deleting",
  "ClaimBackendDisabled", // an ordinary claim, and the policy that decides it does not opt it in
  "OtherAutoscaler", // annotations of another autoscaler are on the claim
  "ResizeInfeasible", // the claim's own driver cannot carry out what is asked for already
] as const;
export type HoldReason = (typeof HOLD_REASONS)[number];

/** What an Event says on a NodeStorage, of one of its thin pools; in addition to PolicyInvalid and PolicySuspended. */
export const THIN_POOL_REASONS = [
  "ThinPoolExtended",
  "ThinPoolFull", // it must grow and cannot: by the policy's max, or for want of room in its group
  "ThinPoolExtendFailed",
  "ThinPoolUnknown", // what lvmd reports of it cannot be; nothing is guessed
] as const;
export type ThinPoolReason = (typeof THIN_POOL_REASONS)[number];

/** What a condition says of an object, or an Event of what was done about it. */
export const CONDITION_REASONS = [
  "Ready",
  "Provisioning",
  "WaitingForNode",
  "OperationRunning",
  "WaitingForMember", // a member's claim, volume or attachment is on its way
  "MembersHeld", // the filesystem is not mounted, and its node has not given back all of its members yet
  "MemberFailed", // a member cannot be had, or is not what it was
  "GrowthFailed", // a member's driver agreed to expand it and its device did not follow; members are added instead
  "MemberLimitReached", // no member may be added or grown
  "InsufficientAttachSlots", // a pod waits whose volumes need more attach slots than any node has, and nothing can be merged
  "SpareMissing", // a spare member is wanted and cannot be had; the filesystem works without
  "MembersMissing", // an incomplete set of members was found; nothing is guessed
  "SignatureFound", // the device already carries a signature; it is never formatted
  "DiskFull", // the host has no room for the member
  "RecordNotWritten", // the node's disk takes no records: nothing begins without one
  "NodeLost", // the node that alone has the data is gone or out of service
  "WebhookBypassed", // a pod waits for a node that the pod webhook has not marked for the extender
  "StorageClassInvalid", // no node can ever give a volume of the claim's class
  "MountFailed",
  "ResizeFailed",
  "NodeResizePending", // the driver has expanded the volume; kubelet is to grow the filesystem
  "ShrinkOutcomeUnknown", // a shrink of the unmounted filesystem was interrupted, and it is unknown which content is the last one
  "ReadOnly", // the filesystem takes no writes: the kernel has stopped them after an error, or an administrator has remounted it
  "StaleEpoch", // a deposed leader's write was refused
  "FilesystemHung",
  "Pending", // no policy-engine has read the policy yet
  "Compiled", // a policy is valid
  "CompileFailed",
  "Conflict", // two policies of one scope and priority: the oldest wins and decides; both carry the condition, the others are not Ready
  "Shadowed", // others decide all claims that the policy selects
  "CappedByRequest", // no ceiling stands over its claims, so they stop at 10 times their request, under limits.max
  "InUse", // an approval has let a change be made
  "Unused", // an approval, by no plan so far
  "Expired", // an approval's notAfter is over
  "TooNarrow", // a plan waits that an approval names and does not cover
  "TooManyApprovals", // the oldest of a namespace count, and this approval is not among them
  "ApprovalInvalid", // an approval cannot be read, and approves nothing
  "Rebuilt", // recreated from the records on the member
] as const;
export type ConditionReason = (typeof CONDITION_REASONS)[number];

/** What nothing but an Event says. */
export const EVENT_REASONS = [
  "LogicalVolumeNotMade", // lvmd or LVM refused to make or find it
  "LogicalVolumeNotRemoved", // lvmd or LVM refused to remove a snapshot
  "LogicalVolumeOrphaned", // LVM has a volume with our tags that no object names
  "CertificateReplaced", // a Secret's certificate could not be used
  "MemberLeft", // a layout named a member that had left its filesystem before
] as const;
