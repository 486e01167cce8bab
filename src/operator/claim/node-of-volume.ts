// Which node's agent may speak for an ordinary claim. Pure. Not what an agent says counts, but what the control plane has written:
// where the volume is attached, or the only node that its topology allows.
import type { PersistentVolume, VolumeAttachment } from "../../kube/resources.ts";

/** Undefined: nowhere now, or on no node that could be told, such as with a network filesystem that nobody attaches. */
export function nodeOfVolume(volume: PersistentVolume, attachments: readonly VolumeAttachment[]): string | undefined {
  const attached = attachments
    .filter(({ metadata, status }) => status?.attached === true && metadata.deletionTimestamp === undefined)
    .map(({ spec }) => spec.nodeName);
  // Attached to several, each sees the same use: always the same one of them speaks.
  return attached.sort()[0] ?? onlyNodeOf(volume);
}

/** Topology keys of local drivers have the node's name for a value; there is exactly one key with exactly one value. */
function onlyNodeOf({ spec }: PersistentVolume): string | undefined {
  const terms = spec.nodeAffinity?.required?.nodeSelectorTerms ?? [];
  const expressions = terms.flatMap(({ matchExpressions = [] }) => matchExpressions);
  const [only] = expressions;
  if (expressions.length !== 1 || only?.operator !== "In" || only.values?.length !== 1) return undefined;
  return /(^|\/)(hostname|node|nodename)$/.test(only.key) ? only.values[0] : undefined;
}
