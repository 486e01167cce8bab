// Writes FilesystemLayout.status, always on the very version of the layout that gives the volume to this node: what another node says
// by now is never written over. What is said is layout-status.ts'.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout, type FilesystemLayoutStatus } from "../api/filesystem-layout.ts";
import { API_VERSION, FIELD_MANAGERS } from "../api/names.ts";
import type { Applier } from "../kube/apply.ts";
import type { ApplyConfiguration, KubeClient } from "../kube/client.ts";
import { isKubeError, KubeError } from "../kube/kube-error.ts";
import type { ReadableStore } from "../kube/store.ts";
import type { Clock } from "../process/clock.ts";
import { LayoutError } from "./layout-record.ts";
import { layoutStatus } from "./layout-status.ts";
import type { VolumeState, VolumeStates } from "./volume-state.ts";

export interface StatusWriting {
  readonly nodeName: string;
  readonly states: VolumeStates;
  readonly layouts: ReadableStore<FilesystemLayout>;
  readonly client: Pick<KubeClient, "get">;
  readonly applier: Applier;
  readonly clock: Clock;
}

const APPLY_OPTIONS = { fieldManager: FIELD_MANAGERS.agent, force: true, subresource: "status" } as const;
/** Of writes of one report: somebody else has written to the layout right before each. */
const CONFLICTS_LIMIT = 8;

/** `mayWait`: whether it is told later. Nothing is written where the volume is not this node's. Throws KubeError. */
export async function applyStatus(
  writing: StatusWriting,
  handle: string,
  mayWait: (told: FilesystemLayoutStatus | undefined, status: FilesystemLayoutStatus) => boolean,
): Promise<void> {
  const { client, states, layouts, nodeName, applier } = writing;
  let live = layouts.get(handle);
  for (let attempt = 1; ; attempt += 1) {
    const state = states.get(handle);
    // Another node's by now: two agents that overwrite each other's status would never end.
    if (state === undefined || live?.spec.nodeName !== nodeName) return;
    const configuration = configurationOf(writing, state, live);
    if (mayWait(live.status, configuration.status)) return;
    try {
      await applyKnown(applier, configuration, live);
      return;
    } catch (error) {
      if (!isKubeError(error, "Conflict") || attempt === CONFLICTS_LIMIT) throw error;
      live = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
    }
  }
}

/**
 * The definition that an API server still has while this is rolled out may not know what was added last, and refuses the whole status for
 * it: then the rest is said without it.
 */
async function applyKnown(applier: Applier, configuration: StatusConfiguration, live: FilesystemLayout): Promise<void> {
  const apply = (said: StatusConfiguration): Promise<unknown> =>
    applier.applyOnChange("agent-status/apply", FILESYSTEM_LAYOUTS, said, APPLY_OPTIONS, live);
  const { immovable, ...known } = configuration.status;
  try {
    await apply(configuration);
  } catch (error) {
    const isUnknown = error instanceof KubeError && error.message.includes(".status.immovable: field not declared");
    if (immovable === undefined || !isUnknown) throw error;
    await apply({ ...configuration, status: known });
  }
}

/** Whoever takes the volume back afterwards meets what is said here. Throws LayoutError where it is not this node's, and KubeError. */
export async function announceHold(writing: StatusWriting, handle: string): Promise<void> {
  const { client, states, nodeName, applier } = writing;
  for (let attempt = 1; ; attempt += 1) {
    const live = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
    const state = states.get(handle);
    if (state === undefined || live?.spec.nodeName !== nodeName)
      throw new LayoutError(
        `FilesystemLayout ${handle} gives the volume to ${live?.spec.nodeName ?? "no node"}, not to ${nodeName}; nothing of it is touched`,
      );
    const configuration = configurationOf(writing, { ...state, held: true }, live);
    try {
      await applier.applyOnChange("span/announce", FILESYSTEM_LAYOUTS, configuration, APPLY_OPTIONS, live);
      state.held = true;
      return;
    } catch (error) {
      if (!isKubeError(error, "Conflict") || attempt === CONFLICTS_LIMIT) throw error;
    }
  }
}

type StatusConfiguration = ApplyConfiguration & { readonly status: FilesystemLayoutStatus };

function configurationOf(
  { nodeName, clock }: StatusWriting,
  state: VolumeState,
  live: FilesystemLayout,
): StatusConfiguration {
  const { name, uid, resourceVersion } = live.metadata;
  return {
    apiVersion: API_VERSION,
    kind: FILESYSTEM_LAYOUTS.kind,
    metadata: { name, uid, ...(resourceVersion === undefined ? {} : { resourceVersion }) },
    status: layoutStatus({ state, nodeName, nowMs: clock.nowMs(), live }),
  };
}
