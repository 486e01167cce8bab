// What people are told of filesystems whose members could be merged for a pod, are merged, or help nobody: by events of the filesystem and of
// the pod, which reads no names of another namespace.
import type { Filesystem } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { Reflector } from "../../kube/cache/reflector.ts";
import type { EventRecorder } from "../../kube/events/events.ts";
import { objectKey } from "../../kube/object.ts";
import type { Pod } from "../../kube/resources.ts";
import type { OperatorMetrics } from "../metrics.ts";
import { isOfNamespace, type Need } from "./decide-needs.ts";
import type { Unfit } from "./decide-unfit.ts";
import { outcomeOf } from "./under-way.ts";

export interface ConsolidationTelling {
  /** Of pods that wait for their containers. */
  readonly pods: Reflector<Pod>;
  readonly layouts: Reflector<FilesystemLayout>;
  readonly filesystemOf: (layout: FilesystemLayout) => Filesystem | undefined;
  readonly events: Pick<EventRecorder, "record">;
  readonly metrics: Pick<OperatorMetrics, "consolidated">;
}

export function tellNeed(
  { pods, layouts, filesystemOf, events }: ConsolidationTelling,
  handle: string,
  need: Need,
): void {
  const layout = layouts.store.get(handle);
  const filesystem = layout && filesystemOf(layout);
  if (layout === undefined || filesystem === undefined) return;
  const because = need.obstacle === undefined ? need.message : `${need.message}, but ${need.obstacle}`;
  events.record(filesystem, "Normal", "SlotsWanted", because);
  const pod = pods.store.get(need.pod);
  if (pod === undefined) return;
  const said = isOfNamespace(layout, pod)
    ? `Filesystem ${objectKey(filesystem.metadata)}: ${need.message}`
    : `a filesystem of another namespace could have ${need.members} members on node ${need.node}, which would free attach slots`;
  const next = need.obstacle === undefined ? "; its policy decides" : `, but ${need.obstacle}`;
  events.record(pod, "Normal", "SlotsWanted", `${said}${next}`);
}

export function tellUnfit(
  { pods, layouts, filesystemOf, events }: ConsolidationTelling,
  handle: string,
  { pod: key, message }: Unfit,
): void {
  const layout = layouts.store.get(handle);
  const filesystem = layout && filesystemOf(layout);
  const pod = pods.store.get(key);
  if (filesystem !== undefined) events.record(filesystem, "Warning", "NoNodeHasSlots", message);
  if (pod !== undefined) events.record(pod, "Warning", "NoNodeHasSlots", message);
}

/** `podKey`: who has waited for it. */
export function tellEnd(
  { pods, filesystemOf, events, metrics }: ConsolidationTelling,
  layout: FilesystemLayout,
  podKey: string | undefined,
): void {
  const filesystem = filesystemOf(layout);
  const outcome = outcomeOf(layout, filesystem);
  metrics.consolidated(outcome ?? "Superseded");
  if (filesystem === undefined || outcome === undefined) return;
  const count = (layout.status?.members ?? []).filter(({ state }) => state === "Present").length;
  const message = `it has ${count} member${count === 1 ? "" : "s"} now`;
  const why = layout.status?.lastOperation?.message;
  const said = why === undefined ? message : `${message}: ${why}`;
  const type = outcome === "Failed" ? "Warning" : "Normal";
  events.record(filesystem, type, `Consolidation${outcome}`, said);
  const pod = podKey === undefined ? undefined : pods.store.get(podKey);
  if (pod === undefined) return;
  const toPod = isOfNamespace(layout, pod)
    ? `Filesystem ${objectKey(filesystem.metadata)}: ${said}`
    : `a filesystem of another namespace: ${message}`;
  events.record(pod, type, `Consolidation${outcome}`, toPod);
}
