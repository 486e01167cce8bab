// Writes FilesystemLayout.status, always on the very version of the layout that gives the volume to this node: what another node says
// by now is never written over. What is said is layout-status.ts'.
import {
  FILESYSTEM_LAYOUTS,
  type FilesystemLayout,
  type FilesystemLayoutStatus,
  type LastOperation,
} from "../../api/filesystem-layout.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../api/names.ts";
import type { HoldReason } from "../../api/reasons.ts";
import type { ReadableStore } from "../../kube/cache/store.ts";
import type { Applier } from "../../kube/client/apply-on-change.ts";
import type { ApplyConfiguration, KubeClient } from "../../kube/client/client.ts";
import { onLatest, versionOf } from "../../kube/client/on-latest.ts";
import { KubeError } from "../../kube/kube-error.ts";
import type { Clock } from "../../process/clock.ts";
import { LayoutError } from "../gather/layout-record.ts";
import type { VolumeState, VolumeStates } from "../volumes/volume-state.ts";
import { layoutStatus } from "./layout-status.ts";

export interface StatusWriting {
  readonly nodeName: string;
  readonly states: VolumeStates;
  readonly layouts: ReadableStore<FilesystemLayout>;
  readonly client: Pick<KubeClient, "get">;
  readonly applier: Applier;
  readonly clock: Clock;
}

const APPLY_OPTIONS = { fieldManager: FIELD_MANAGERS.agent, force: true, subresource: "status" } as const;

/** `mayWait`: whether it is told later. Nothing is written where the volume is not this node's. Throws KubeError. */
export async function applyStatus(
  writing: StatusWriting,
  handle: string,
  mayWait: (told: FilesystemLayoutStatus | undefined, status: FilesystemLayoutStatus) => boolean,
): Promise<void> {
  const { states, layouts, nodeName, applier } = writing;
  await onLatest(layouts.get(handle), layoutOf(writing, handle), async (live) => {
    const state = states.get(handle);
    // Another node's by now: two agents that overwrite each other's status would never end.
    if (state === undefined || live?.spec.nodeName !== nodeName) return;
    const configuration = configurationOf(writing, state, live);
    if (mayWait(live.status, configuration.status)) return;
    await applyKnown(applier, configuration, live);
  });
}

/**
 * The definition that an API server still has while this is rolled out may not know what was added last, and refuses the whole status for
 * it: then the rest is said without it.
 */
async function applyKnown(applier: Applier, configuration: StatusConfiguration, live: FilesystemLayout): Promise<void> {
  try {
    await applier.applyOnChange("agent-status/apply", FILESYSTEM_LAYOUTS, configuration, APPLY_OPTIONS, live);
  } catch (error) {
    const known = error instanceof KubeError ? withoutUnknown(configuration.status, error.message) : undefined;
    if (known === undefined) throw error;
    await applyKnown(applier, { ...configuration, status: known }, live);
  }
}

/** Without at least one field that the refusal names. Undefined: it is for something else. */
function withoutUnknown(status: FilesystemLayoutStatus, refusal: string): FilesystemLayoutStatus | undefined {
  const { immovable, members, lastOperation, ...others } = status;
  const isImmovable = immovable !== undefined && refusal.includes(".status.immovable: field not declared");
  const isAllocated = /\.status\.members\S*\.allocated: field not declared/.test(refusal);
  if (!isImmovable && !isAllocated) return undefined;
  return {
    ...others,
    ...(members && { members: isAllocated ? members.map(({ allocated: _unknown, ...member }) => member) : members }),
    ...(immovable === undefined || isImmovable ? {} : { immovable }),
    ...(lastOperation && { lastOperation: isImmovable ? withoutImmovable(lastOperation) : lastOperation }),
  };
}

/** That reason holds as long as the field stands: without it, its floor would be asked for again and again. */
function withoutImmovable(last: LastOperation): LastOperation {
  return last.reason === "DataImmovable" ? { ...last, reason: "ShrinkFloorReached" satisfies HoldReason } : last;
}

/** Whoever takes the volume back afterwards meets what is said here. Throws LayoutError where it is not this node's, and KubeError. */
export async function announceHold(writing: StatusWriting, handle: string): Promise<void> {
  const { states, nodeName, applier } = writing;
  const read = layoutOf(writing, handle);
  await onLatest(await read(), read, async (live) => {
    const state = states.get(handle);
    if (state === undefined || live?.spec.nodeName !== nodeName)
      throw new LayoutError(
        `FilesystemLayout ${handle} gives the volume to ${live?.spec.nodeName ?? "no node"}, not to ${nodeName}; nothing of it is touched`,
      );
    const configuration = configurationOf(writing, { ...state, held: true }, live);
    await applier.applyOnChange("span/announce", FILESYSTEM_LAYOUTS, configuration, APPLY_OPTIONS, live);
    state.held = true;
  });
}

function layoutOf({ client }: StatusWriting, handle: string): () => Promise<FilesystemLayout | undefined> {
  return () => client.get(FILESYSTEM_LAYOUTS, { name: handle });
}

type StatusConfiguration = ApplyConfiguration & { readonly status: FilesystemLayoutStatus };

function configurationOf(
  { nodeName, clock }: StatusWriting,
  state: VolumeState,
  live: FilesystemLayout,
): StatusConfiguration {
  return {
    apiVersion: API_VERSION,
    kind: FILESYSTEM_LAYOUTS.kind,
    metadata: versionOf(live),
    status: layoutStatus({ state, nodeName, nowMs: clock.nowMs(), live }),
  };
}
