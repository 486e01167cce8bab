// Finds a volume that kubelet names: in memory, in the reflector's store, or by asking the API server. A node that has the
// volume's own record needs no API server.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { ReadableStore } from "../../kube/cache/store.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { isClaimLayout } from "../foreign-claims/own-layouts.ts";
import { newVolumeState, type VolumeState, type VolumeStates } from "../volumes/volume-state.ts";
import { isRemovalWanted, recordWithLayout } from "./layout-record.ts";

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
  // What the watch has not said yet is asked for: a layout is blank at first, a span comes to a node right before kubelet stages it
  // there, and a volume may be made again under the name of one that went.
  const isOurs = heard?.spec.nodeName === nodeName && !isRemovalWanted(heard);
  const layout = isOurs ? heard : await client.get(FILESYSTEM_LAYOUTS, { name: handle });
  if (layout?.spec.nodeName !== nodeName || isRemovalWanted(layout) || isClaimLayout(layout)) return undefined;
  const state = states.get(handle) ?? newVolumeState(recordWithLayout(layout, undefined), false);
  state.record = recordWithLayout(layout, state.record);
  states.set(handle, state);
  return state;
}
