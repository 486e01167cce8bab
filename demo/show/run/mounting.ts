// Waiting until the claim's volume is mounted where its pod would see it, or is no longer: read from the kernel, not from a report.
import { existsSync, realpathSync } from "node:fs";
import type { KubeClient } from "../../../src/platform/kube/client/client.ts";
import { type DemoVolume, findVolume } from "../script/demo-claim.ts";
import { until } from "../script/stage.ts";
import { capacityFileOf } from "../writers/simulated-room.ts";
import { mountsUnder } from "./mount-table.ts";

const MOUNT_LIMIT_MS = 30_000;

/** Throws when it takes too long. */
export async function untilMounted(
  client: KubeClient,
  kubeletDirectory: string,
  storage: "real" | "simulated",
  ending: AbortSignal,
): Promise<DemoVolume> {
  let volume: DemoVolume | undefined;
  await until("the claim is bound and mounted", MOUNT_LIMIT_MS, ending, async () => {
    volume = await findVolume(client, kubeletDirectory);
    return volume !== undefined && isMounted(volume, storage);
  });
  if (volume === undefined) throw new Error("bug: mounted without a volume");
  return volume;
}

/** Nothing of it is mounted anywhere under kubelet's directory, so that a new mount reads from the disk. */
export function untilUnmounted(
  volume: DemoVolume,
  kubeletDirectory: string,
  storage: "real" | "simulated",
  ending: AbortSignal,
): Promise<void> {
  return until("the volume is unmounted", MOUNT_LIMIT_MS, ending, () =>
    storage === "real" ? mountsUnder(kubeletDirectory).length === 0 : !isMounted(volume, storage),
  );
}

function isMounted({ mountPath }: DemoVolume, storage: "real" | "simulated"): boolean {
  if (storage === "real") return mountsUnder(mountPath).length > 0;
  return existsSync(mountPath) && existsSync(capacityFileOf(realpathSync(mountPath)));
}
