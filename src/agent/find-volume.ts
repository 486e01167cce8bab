// Finds a volume that kubelet names: in memory, in the reflector's store, or by asking the API server. A node that has the
// volume's own record needs no API server.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../api/filesystem-layout.ts";
import type { KubeClient } from "../kube/client.ts";
import type { ReadableStore } from "../kube/store.ts";
import { isClaimLayout } from "./claim/own-layouts.ts";
import { isRemovalWanted, recordWithLayout } from "./layout-record.ts";
import { newVolumeState, type VolumeState, type VolumeStates } from "./volume-state.ts";

export interface VolumeFinder {
  readonly nodeName: string;
  readonly states: VolumeStates;
  readonly layouts: ReadableStore<FilesystemLayout>;
  readonly client: Pick<KubeClient, "get">;
}

/** Undefined when it is not this node's. Throws KubeError, LayoutError. */
export async function findVolume(finder: VolumeFinder, handle: string): Promise<VolumeState | undefined> {
  const { states, layouts, client, nodeName } = finder;
  const known = states.get(handle);
  if (known?.recorded === true) return known;
  const heard = layouts.get(handle);
  // A span comes to a node right before kubelet stages it there: the watch may not have said so yet.
  const isNews = heard === undefined || (heard.spec.backend === "span" && heard.spec.nodeName !== nodeName);
  const layout = isNews ? await client.get(FILESYSTEM_LAYOUTS, { name: handle }) : heard;
  if (layout?.spec.nodeName !== nodeName || isRemovalWanted(layout) || isClaimLayout(layout)) return undefined;
  const state = states.get(handle) ?? newVolumeState(recordWithLayout(layout, undefined), false);
  state.record = recordWithLayout(layout, state.record);
  states.set(handle, state);
  return state;
}
