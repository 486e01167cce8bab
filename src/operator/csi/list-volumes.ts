// ListVolumes: every volume that has a layout, from the cache and in the order of handles, in pages. A token is the last
// handle of the page before, so that it outlives that very volume and any restart. Pure.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { volumeUIDOf } from "../../api/identity.ts";
import { TOPOLOGY_NODE } from "../../api/names.ts";
import type { Driver } from "../../csi/driver.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import { shownVolumeId } from "../../csi/volume-id.ts";
import type { ListVolumesRequest, ListVolumesResponse, ListVolumesResponse_Entry } from "../../gen/csi/v1/csi.ts";
import type { ReadableStore } from "../../kube/cache/store.ts";
import { presentBytes } from "../volume/layout-facts.ts";

/** About 250 bytes each: a page stays far below gRPC's 4 MiB. */
const PAGE_LIMIT = 5000;

export function listVolumes(
  layouts: Pick<ReadableStore<FilesystemLayout>, "list">,
  driver: Driver,
  { maxEntries, startingToken }: ListVolumesRequest,
): ListVolumesResponse | Refusal {
  if (maxEntries < 0) return invalidArgument(`max_entries is ${maxEntries}; it must be 0 or more`);
  if (startingToken !== "" && volumeUIDOf(startingToken) === undefined)
    return new Refusal(
      "ABORTED",
      `"${shownVolumeId(startingToken)}" is no token of a page before; begin again without one`,
    );
  const rest = layouts
    .list()
    .filter(
      ({ metadata, spec }) => metadata.name > startingToken && driver.backends.some((one) => one === spec.backend),
    )
    .sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  const page = rest.slice(0, maxEntries === 0 ? PAGE_LIMIT : Math.min(maxEntries, PAGE_LIMIT));
  const nextToken = page.length < rest.length ? (page.at(-1)?.metadata.name ?? "") : "";
  return { entries: page.map(entryOf), nextToken };
}

/** The size is the present one; CSI's 0 says that it is not known. */
function entryOf(layout: FilesystemLayout): ListVolumesResponse_Entry {
  const { nodeName, backend } = layout.spec;
  // A span moves: the node that has it now says nothing of where it can be used.
  const isBoundToNode = nodeName !== undefined && backend !== "span";
  return {
    volume: {
      volumeId: layout.metadata.name,
      capacityBytes: presentBytes(layout) ?? 0,
      volumeContext: {},
      contentSource: undefined,
      accessibleTopology: isBoundToNode ? [{ segments: { [TOPOLOGY_NODE]: nodeName } }] : [],
    },
    status: undefined,
  };
}
