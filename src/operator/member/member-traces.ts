// Whether anything in the cluster still tells of a span's members: a claim, a volume, an attachment. Where nothing does, and members of
// its class are on a node by an attachment only, none of them is on any node. Reading only; in doubt something does.
import { MEMBER_NAMESPACE, RECORDS } from "../../api/names.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import {
  CSI_DRIVERS,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  STORAGE_CLASSES,
  VOLUME_ATTACHMENTS,
} from "../../kube/resources.ts";
import { isIncomplete, recordOfPersistentVolume } from "../volume/volume-record.ts";

/** `volume`: the user's. */
export async function hasMemberTraces(client: KubeClient, volume: PersistentVolume): Promise<boolean> {
  const record = recordOfPersistentVolume(volume);
  if (isIncomplete(record) || record.backend !== "span") return true;
  const labelSelector = `${RECORDS.volumeUID}=${record.volumeUID}`;
  const [claims, volumes, attachments] = await Promise.all([
    client.list(PERSISTENT_VOLUME_CLAIMS, { namespace: MEMBER_NAMESPACE, labelSelector }),
    client.list(PERSISTENT_VOLUMES, { labelSelector }),
    client.list(VOLUME_ATTACHMENTS, { labelSelector }),
  ]);
  if ([claims, volumes, attachments].some(({ items }) => items.length > 0)) return true;
  return !(await isAttachedToBeUsed(client, record.memberRules?.className));
}

/** A class or a driver that is gone cannot be asked. */
async function isAttachedToBeUsed(client: KubeClient, className: string | undefined): Promise<boolean> {
  const storageClass = className === undefined ? undefined : await client.get(STORAGE_CLASSES, { name: className });
  const driver = storageClass && (await client.get(CSI_DRIVERS, { name: storageClass.provisioner }));
  return driver !== undefined && driver.spec.attachRequired !== false;
}
