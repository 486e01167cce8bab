import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { FILESYSTEMS } from "../../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { LEASES, PERSISTENT_VOLUME_CLAIMS } from "../../../src/contracts/kubernetes/resources.ts";
import { FIELD_MANAGERS } from "../../../src/contracts/names.ts";
import { buildClaim } from "../../builders/claim.ts";
import { untilRead } from "../../harness/wait-for.ts";
import { startTestCluster, type TestCluster } from "./cluster.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startTestCluster();
});
afterAll(async () => {
  await cluster.stop();
});

const namespace = "default";
const readLease = () => cluster.client.get(LEASES, { namespace: "tidemark-system", name: "tidemark-operator" });

async function carry(decidedAt: string, size: string): Promise<void> {
  const filesystem = await cluster.client.get(FILESYSTEMS, { namespace, name: "data" });
  const target = { size, from: filesystem?.status?.capacity ?? "1Gi", epoch: 1, decidedAt };
  await cluster.client.apply(
    "test/target",
    FILESYSTEMS,
    {
      apiVersion: "tidemark.dev/v1alpha1",
      kind: "Filesystem",
      metadata: { namespace, name: "data" },
      spec: { target },
    },
    { fieldManager: FIELD_MANAGERS.policyEngine },
  );
  await untilRead(
    `the layout has the target of ${size}`,
    async () => (await cluster.client.list(FILESYSTEM_LAYOUTS)).items[0]?.spec.target,
    (one) => one?.decidedAt === decidedAt && one.size === size,
  );
}

describe("two operators", () => {
  it("have one leader, and the other takes over when it stops", async () => {
    const stopSecond = await cluster.startAnotherOperator();
    await cluster.client.create("test/create-claim", PERSISTENT_VOLUME_CLAIMS, buildClaim({ name: "data" }));
    await untilRead(
      "it is Ready",
      () => cluster.client.get(FILESYSTEMS, { namespace, name: "data" }),
      (one) => one?.status?.capacity === "1Gi",
    );
    await carry("2030-01-01T00:00:00.000Z", "2Gi");
    const first = (await readLease())?.spec?.holderIdentity;
    expect(first).toMatch(/^operator-/);

    await cluster.stopOperator();
    await untilRead("another leader", readLease, (lease) => {
      const holder = lease?.spec?.holderIdentity;
      return holder !== undefined && holder !== "" && holder !== first;
    });
    await carry("2030-01-01T00:00:01.000Z", "3Gi");
    await stopSecond();
  });
});
