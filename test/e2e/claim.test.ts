// Claims of another driver on a real Kubernetes: the member driver with filesystem volumes of its own, upstream's csi-resizer and a
// real kubelet carry out what Tidemark asks for.
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { FILESYSTEMS } from "../../src/contracts/kinds/filesystem.ts";
import { PERSISTENT_VOLUME_CLAIMS } from "../../src/contracts/kubernetes/resources.ts";
import { FIELD_MANAGERS } from "../../src/contracts/names.ts";
import { waitFor } from "../harness/wait-for.ts";
import { MEMBER_CLASS } from "../member-driver/config.ts";
import { installMemberDriver } from "../member-driver/install.ts";
import { applyObject } from "./apply-object.ts";
import { type ClusterUnderTest, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn } from "./describe-on.ts";
import { install, loadImages } from "./installed-tidemark.ts";
import { statefulWriter, WRITER_CLAIM, WRITER_POD, type Writer, writerIn } from "./stateful-writer.ts";
import { whatIsThere } from "./what-is-there.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 420_000;

const policy = (claimBackend: "Enabled" | "Disabled"): object => ({
  apiVersion: "tidemark.dev/v1alpha1",
  kind: "VolumePolicy",
  metadata: { name: "claims" },
  spec: {
    claimBackend,
    limits: { max: "8Gi", minAvailable: "64Mi" },
    rules: [{ name: "extend-at-80", action: "Extend", when: "volume.usedRatio >= 0.8", targetUsed: "60%" }],
  },
});

describeOn("any", "claims of another driver in a cluster", ["bundle"], () => {
  let tested: ClusterUnderTest;
  let writer: Writer;

  const named = () => ({ namespace: tested.namespace, name: WRITER_CLAIM });
  const requested = async (): Promise<string | undefined> =>
    (await tested.client.get(PERSISTENT_VOLUME_CLAIMS, named()))?.spec.resources?.requests?.storage;
  const until = <T>(what: string, look: () => Promise<T | undefined>): Promise<T> =>
    waitFor(what, look, { limitMs: LIMIT_MS / 2, intervalMs: 500, otherwise: () => whatIsThere(tested) });

  beforeAll(async () => {
    tested = await startClusterUnderTest();
    writer = writerIn(tested);
    await loadImages(tested);
    await installMemberDriver(tested);
    await install(tested);
  }, BUILD_LIMIT_MS);
  afterAll(async () => {
    await tested?.close();
  }, LIMIT_MS);

  it(
    "are not touched before a policy opts them in",
    async () => {
      await applyObject(tested, policy("Disabled"));
      await applyObject(tested, statefulWriter(tested.image, MEMBER_CLASS, "1Gi"));
      await writer.running();
      expect(await writer.capacityMiB()).toBe(1024);
      expect(await tested.client.get(FILESYSTEMS, named())).toBeUndefined();
    },
    LIMIT_MS,
  );

  it(
    "grow under a pod that fills them: the request by Tidemark, the volume by its driver, the filesystem by kubelet",
    async () => {
      await applyObject(tested, policy("Enabled"));
      const adopted = await until("its Filesystem on its node", async () => {
        const filesystem = await tested.client.get(FILESYSTEMS, named());
        return filesystem?.status?.scaling?.reason === "WithinBounds" ? filesystem : undefined;
      });
      expect(adopted.status).toMatchObject({ capacity: "1Gi", nodeName: expect.any(String) });
      await writer.write(Array.from({ length: 54 }, (_, index) => `f${index}`));
      await until("the request", async () => ((await requested()) === "2Gi" ? true : undefined));
      const told = await until("kubelet's turn, or its end", async () => {
        const { status } = (await tested.client.get(FILESYSTEMS, named())) ?? {};
        const isPending = status?.conditions?.some(({ reason }) => reason === "NodeResizePending");
        return isPending ? "pending" : status?.capacity === "2Gi" ? "done" : undefined;
      });
      // It looks when it next synchronises the pod; a change of that may bring this forward, and nothing here rests on it.
      if (told === "pending") await tested.kubectl("annotate", "pod", WRITER_POD, "looked-at=now");
      await until("the filesystem to grow", async () => ((await writer.capacityMiB()) === 2048 ? true : undefined));
      const done = await until("the capacity", async () => {
        const filesystem = await tested.client.get(FILESYSTEMS, named());
        return filesystem?.status?.capacity === "2Gi" ? filesystem : undefined;
      });
      expect(done.status?.conditions).toContainEqual(expect.objectContaining({ type: "Ready", status: "True" }));
      expect(await writer.damaged()).toBe("");
      const managers = await tested.kubectl("get", "pvc", WRITER_CLAIM, "--show-managed-fields", "-o", "json");
      expect(managers).toContain(FIELD_MANAGERS.claimRequest);
    },
    LIMIT_MS,
  );

  it(
    "are extended once for one crossing",
    async () => {
      await until("a quiet policy", async () => {
        const filesystem = await tested.client.get(FILESYSTEMS, named());
        return filesystem?.status?.scaling?.reason === "WithinBounds" ? filesystem : undefined;
      });
      expect(await requested()).toBe("2Gi");
    },
    LIMIT_MS,
  );

  it(
    "keep their size when the policy is gone",
    async () => {
      await tested.kubectl("delete", "volumepolicy", "claims");
      await until("NoPolicy", async () => {
        const filesystem = await tested.client.get(FILESYSTEMS, named());
        return filesystem?.status?.scaling?.reason === "NoPolicy" ? filesystem : undefined;
      });
      expect(await requested()).toBe("2Gi");
      expect(await writer.capacityMiB()).toBe(2048);
    },
    LIMIT_MS,
  );
});
