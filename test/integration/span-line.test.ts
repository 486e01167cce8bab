// The whole line of a span on this machine: the operator, a real agent, real block devices of another driver and real btrfs. Only
// the control plane is the embedded one, and the members' sidecars are played.
import { createHash, randomUUID } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { FILESYSTEMS } from "../../src/contracts/kinds/filesystem.ts";
import { NAMESPACES } from "../../src/contracts/kubernetes/resources.ts";
import { GIB, MIB } from "../../src/contracts/quantities/quantity.ts";
import { startOperator } from "../../src/operator/start-operator.ts";
import { readConnectionSettings } from "../../src/platform/kube/client/kube-config.ts";
import { createLogger } from "../../src/platform/process/log.ts";
import type { Stoppable } from "../../src/platform/process/shutdown.ts";
import {
  createDriver,
  createMemberClass,
  createZoneNode,
  type MemberSidecars,
  startMemberSidecars,
} from "../fakes/member-sidecars.ts";
import { describeReal, STACK_PARTS } from "../harness/real-parts.ts";
import { type AgentUnderTest, NODE_NAME, startAgentUnderTest, waitFor } from "./agent/agent-under-test.ts";
import { spanUnderTest as agentsSpan, createSpanParts, DRIVER, type SpanParts } from "./agent/span-under-test.ts";
import { type SpanUnderTest, spanUnderTest } from "./operator/span-under-test.ts";

const FIXED_CLASS = "loop-members";
const GROWING_CLASS = "growing-loop-members";
const LIMIT_MS = 120_000;

describeReal("a span, from its claim to its end", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  let parts: SpanParts;
  let sidecars: MemberSidecars;
  let span: SpanUnderTest;
  let operator: readonly Stoppable[] = [];
  const volumes = new Set<string>();

  beforeAll(async () => {
    const log = createLogger("test", "silent");
    agent = await startAgentUnderTest();
    parts = await createSpanParts(agent);
    const object = (kind: string, name: string) => ({ apiVersion: "v1", kind, metadata: { name } });
    for (const name of ["shop", "tidemark-system"])
      await agent.client.create("test/namespace", NAMESPACES, object("Namespace", name));
    await createZoneNode(agent.client, NODE_NAME);
    sidecars = await startMemberSidecars(agent.client, log, {
      create: (handle, sizeBytes) => {
        parts.driver.createVolume(handle, sizeBytes);
        volumes.add(handle);
      },
      expand: (handle, sizeBytes) => parts.driver.growVolume(handle, sizeBytes),
      remove: (handle) => {
        parts.driver.deleteVolume(handle);
        volumes.delete(handle);
      },
      context: () => ({ attached: "yes" }),
    });
    await createDriver(agent.client, DRIVER, true);
    await createMemberClass(agent.client, FIXED_CLASS, false, DRIVER);
    await createMemberClass(agent.client, GROWING_CLASS, true, DRIVER);
    const spanSocket = join(agent.directory, "run/span-operator.sock");
    const running = await startOperator(
      {
        connection: readConnectionSettings({ server: agent.serverUrl }, {}),
        identity: `operator-${randomUUID()}`,
        leaseNamespace: "tidemark-system",
        userName: undefined,
        guardsRequired: false,
        namespaceBudgetBytes: 1024 * GIB,
        podWebhook: undefined,
        metricsAuthentication: undefined,
        nodeLossDelayMs: 30_000,
        consolidationLookMs: 10_000,
        csiSocket: join(agent.directory, "run/operator.sock"),
        spanCsiSocket: spanSocket,
        httpHost: "127.0.0.1",
        httpPort: 0,
        logLevel: "silent",
        faults: [],
        effectLog: undefined,
      },
      log,
    );
    operator = running.parts;
    span = spanUnderTest({ client: agent.client, spanSocket });
    await agent.startAgent({}, parts.flags);
  }, LIMIT_MS);
  afterAll(async () => {
    span.close();
    for (const { stop } of [...operator].reverse()) await stop();
    await sidecars.stop();
    await parts.close();
    await agent.dispose();
  }, LIMIT_MS);

  const topology = { segments: { "topology.tidemark.dev/node": NODE_NAME } };
  const capacity = async (claim: string) =>
    (await agent.client.get(FILESYSTEMS, { namespace: "shop", name: claim }))?.status?.capacity;

  async function mounted(memberStorageClassName: string) {
    const accessibilityRequirements = { requisite: [topology], preferred: [topology] };
    const request = span.request({ memberStorageClassName }, { accessibilityRequirements });
    const { volume } = await span.create(request);
    const handle = volume?.volumeId ?? "";
    await span.publish(handle, NODE_NAME);
    const node = agentsSpan(agent, parts, handle.slice("fs-".length));
    await node.stage();
    await node.publish();
    const claim = request.parameters["csi.storage.k8s.io/pvc/name"] ?? "";
    await waitFor("its size on the Filesystem", async () => (await capacity(claim)) === "2Gi");
    return { handle, claim, node };
  }

  async function removed(handle: string, node: ReturnType<typeof agentsSpan>): Promise<void> {
    await node.unpublish();
    await node.unstage();
    await span.unpublish(handle, NODE_NAME);
    await span.remove(handle);
    await waitFor("its volumes to be reclaimed", () => volumes.size === 0);
    expect(await span.layout(handle)).toBeUndefined();
    expect(await span.claims(handle)).toEqual([]);
    expect(await span.attachments()).toEqual([]);
  }

  it(
    "grows by a member and shrinks by giving it back, with every byte as it was",
    async () => {
      const { handle, claim, node } = await mounted(FIXED_CLASS);
      const path = join(node.targetPath, "data");
      const bytes = Buffer.alloc(64 * MIB, randomUUID());
      const digest = (data: Buffer): string => createHash("sha256").update(data).digest("hex");
      writeFileSync(path, bytes, { flush: true });

      await span.target(claim, "3Gi", "2Gi");
      await waitFor("a larger filesystem", async () => (await capacity(claim)) === "3Gi");
      expect(node.capacityBytes()).toBe(3 * GIB);
      expect(await span.claims(handle)).toEqual([`${handle}-m0`, `${handle}-m1`]);

      await span.target(claim, "2Gi", "3Gi");
      await span.untilLayout("m1 to have left", handle, ({ spec }) => spec.members?.length === 1);
      await waitFor("its volume to be reclaimed", () => volumes.size === 1);
      expect(node.capacityBytes()).toBe(2 * GIB);
      expect(await span.claims(handle)).toEqual([`${handle}-m0`]);
      expect(existsSync(parts.driver.fileOf(`device-of-${handle}-m1`))).toBe(false);
      expect(digest(readFileSync(path))).toBe(digest(bytes));

      await removed(handle, node);
    },
    LIMIT_MS,
  );

  it(
    "grows in place where the members' class allows it",
    async () => {
      const { handle, claim, node } = await mounted(GROWING_CLASS);
      await span.target(claim, "3Gi", "2Gi");
      await waitFor("a larger filesystem", async () => (await capacity(claim)) === "3Gi");
      expect(node.capacityBytes()).toBe(3 * GIB);
      expect(await span.claims(handle)).toEqual([`${handle}-m0`]);
      await removed(handle, node);
    },
    LIMIT_MS,
  );
});
