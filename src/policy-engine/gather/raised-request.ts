// Whether a claim asks for more than it has been given. Pure, from what the API server has of the claim and of its layout.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { PersistentVolumeClaim } from "../../kube/resources.ts";
import { parseQuantity } from "../../units/quantity.ts";

/** Bytes; undefined when nothing is asked for. */
export function raisedRequestBytes(claim: PersistentVolumeClaim, layout: FilesystemLayout): number | undefined {
  const requestBytes = parseQuantity(claim.spec.resources?.requests?.["storage"] ?? "0");
  const providedBytes = parseQuantity(claim.status?.capacity?.["storage"] ?? "0");
  const isRaised = providedBytes > 0 && requestBytes > providedBytes;
  return isRaised || wasAskedForInVain(layout, requestBytes) ? requestBytes : undefined;
}

/** The claim says that it is provided as soon as the layout carries the target; what became of it the node says. */
function wasAskedForInVain({ status }: FilesystemLayout, requestBytes: number): boolean {
  const last = status?.lastOperation;
  return last?.kind === "Extend" && last.outcome === "Failed" && parseQuantity(last.to) === requestBytes;
}
