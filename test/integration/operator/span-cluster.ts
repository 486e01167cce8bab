// The control plane with operator, member sidecars and two nodes of one zone, for spans.
import { NAMESPACES } from "../../../src/contracts/kubernetes/resources.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { createZoneNode, type MemberSidecars, startMemberSidecars } from "../../fakes/member-sidecars.ts";
import { startTestCluster, type TestCluster } from "./cluster.ts";
import { type SpanUnderTest, spanUnderTest } from "./span-under-test.ts";

export interface SpanCluster {
  readonly cluster: TestCluster;
  readonly sidecars: MemberSidecars;
  readonly span: SpanUnderTest;
  stop(): Promise<void>;
}

export async function startSpanCluster(namespaceBudgetBytes?: number): Promise<SpanCluster> {
  const cluster = await startTestCluster(namespaceBudgetBytes);
  for (const name of ["shop", "thief"])
    await cluster.client.create("test/namespace", NAMESPACES, {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name },
    });
  for (const name of ["node-a", "node-b"]) await createZoneNode(cluster.client, name);
  const sidecars = await startMemberSidecars(cluster.client, createLogger("test", "silent"));
  const span = spanUnderTest(cluster);
  return {
    cluster,
    sidecars,
    span,
    stop: async () => {
      span.close();
      await sidecars.stop();
      await cluster.stop();
    },
  };
}
