// The pod that fails over: a StatefulSet's, with files that have checksums, on a span that was extended member by member.
import { PERSISTENT_VOLUME_CLAIMS } from "../../src/contracts/kubernetes/resources.ts";
import { applyObject } from "../../test/e2e/apply-object.ts";
import type { ClusterUnderTest } from "../../test/e2e/cluster-under-test.ts";
import { statefulWriter, WRITER_CLAIM, type Writer, writerIn } from "../../test/e2e/stateful-writer.ts";
import { waitFor } from "../../test/harness/wait-for.ts";
import { SPAN_CLASS } from "../cluster/span-cluster.ts";

export const MEMBERS = 3;
const GIB_PER_MEMBER = 1;
const FILES = Array.from({ length: 24 }, (_, index) => `f${index}`);
const FILE_MIB = 64;
const LIMIT_MS = 180_000;

/** Half of each member is written. */
export async function startWriter(tested: ClusterUnderTest): Promise<Writer> {
  const writer = writerIn(tested);
  await applyObject(tested, statefulWriter(tested.image, SPAN_CLASS, `${GIB_PER_MEMBER}Gi`));
  await writer.running();
  for (let members = 2; members <= MEMBERS; members += 1) {
    const gib = members * GIB_PER_MEMBER;
    const change = { spec: { resources: { requests: { storage: `${gib}Gi` } } } };
    const claim = { namespace: tested.namespace, name: WRITER_CLAIM };
    await tested.client.mergePatch("bench/request", PERSISTENT_VOLUME_CLAIMS, claim, change);
    await waitFor(
      `the span to have ${members} members`,
      async () => ((await writer.capacityMiB()) === gib * 1024 ? true : undefined),
      { limitMs: LIMIT_MS, intervalMs: 500, otherwise: () => tested.kubectl("describe", "filesystems,pvc") },
    );
  }
  await writer.write(FILES, FILE_MIB);
  return writer;
}
