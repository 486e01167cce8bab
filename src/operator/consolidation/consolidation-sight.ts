// What is seen of pods, slots and members for merging members: read from the operator's caches, nothing of its own but the pods.
import type { Filesystem } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { objectKey } from "../../contracts/kubernetes/object.ts";
import { PODS, type Pod } from "../../contracts/kubernetes/resources.ts";
import { MEMBER_CLASS_PARAMETER, SPAN_DRIVER } from "../../contracts/names.ts";
import { createReflector, type Reflector } from "../../platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { CapacityCaches } from "../capacity/capacity-objects.ts";
import type { ClaimCaches } from "../claim/claim-caches.ts";
import { mergeWay } from "../decide/members/decide-members.ts";
import { classFailure, growsAgainAtMs } from "../decide/members/member-growth.ts";
import { rulesOfRecords } from "../decide/members/member-rules.ts";
import type { VolumeCaches } from "../gather/volume-caches.ts";
import type { ConsolidationWatching } from "./consolidations.ts";

/** Those whose containers have not all been made. */
export function createWaitingPods(client: KubeClient, log: Logger): Reflector<Pod> {
  return createReflector({ client, resource: PODS, log, select: { fieldSelector: "status.phase=Pending" } });
}

type Caches = Pick<VolumeCaches, "layouts" | "filesystems" | "persistentVolumes" | "csiDrivers" | "nodes"> &
  Pick<ClaimCaches, "claims" | "attachments" | "storageClasses">;

export function consolidationSight(
  { layouts, filesystems, persistentVolumes, csiDrivers, nodes, claims, attachments, storageClasses }: Caches,
  { csiNodes }: Pick<CapacityCaches, "csiNodes">,
  clock: Clock,
): Pick<ConsolidationWatching, "layouts" | "filesystemOf" | "seen"> {
  return {
    layouts,
    filesystemOf: ({ spec: { claimRef } }): Filesystem | undefined => {
      const found = claimRef && filesystems.store.get(objectKey(claimRef));
      return found?.spec.claimRef?.uid === claimRef?.uid ? found : undefined;
    },
    seen: {
      claim: (namespace, name) => claims.store.get(objectKey({ namespace, name })),
      volume: (name) => persistentVolumes.store.get(name),
      layout: (handle) => layouts.store.get(handle),
      driverOfNew: ({ spec }) => {
        const ofClass = storageClasses.store.get(spec.storageClassName ?? "");
        if (ofClass?.provisioner !== SPAN_DRIVER) return ofClass?.provisioner;
        return storageClasses.store.get(ofClass.parameters?.[MEMBER_CLASS_PARAMETER] ?? "")?.provisioner;
      },
      nodes: () => nodes.store.list(),
      attaches: (driver) => csiDrivers.store.get(driver)?.spec.attachRequired !== false,
      attachmentsOn: (node) => attachments.store.byIndex("node", node),
      runsOn: (node, driver) => driverOn(csiNodes, node, driver) !== undefined,
      limitOn: (node, driver) => driverOn(csiNodes, node, driver)?.allocatable?.count,
      layoutsOn: (node) => layouts.store.byIndex("span-node", node),
      merging: ({ metadata }: FilesystemLayout) => {
        const rules = rulesOfRecords(metadata.annotations);
        const memberClass = storageClasses.store.get(rules?.className ?? "");
        if (rules === undefined || memberClass === undefined) return undefined;
        const failure = classFailure(layouts.store.list(), rules.className, clock.nowMs());
        const known = { rules, mayGrow: memberClass.allowVolumeExpansion === true };
        const way = mergeWay({ ...known, growthFailed: failure !== undefined });
        // Were it not for that failure, a member would grow.
        if (failure === undefined || mergeWay({ ...known, growthFailed: false }) === "replace") return { way };
        return { way, growsAgainAtMs: growsAgainAtMs(failure) };
      },
    },
  };
}

function driverOn({ store }: CapacityCaches["csiNodes"], node: string, driver: string) {
  return store.get(node)?.spec.drivers.find(({ name }) => name === driver);
}
