// An API server, the operator and the stand-ins in this process, with a node that has no disks.
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bootstrap } from "../../../demo/stand-ins/bootstrap.ts";
import { startStandIns } from "../../../demo/stand-ins/stand-ins.ts";
import { EVENTS } from "../../../src/contracts/kubernetes/resources.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { startOperator } from "../../../src/operator/start-operator.ts";
import { type ConnectedKubeClient, createKubeClient } from "../../../src/platform/kube/client/http-client.ts";
import { readConnectionSettings } from "../../../src/platform/kube/client/kube-config.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import type { Stoppable } from "../../../src/platform/process/shutdown.ts";
import { type FakeCsiNode, startFakeCsiNode } from "../../fakes/fake-csi-node.ts";
import { type ApiUnderTest, startApiUnderTest } from "../../harness/api-under-test.ts";
import { untilRead } from "../../harness/wait-for.ts";

export const NODE_NAME = "node-1";

export interface TestCluster {
  readonly controlPlane: ApiUnderTest;
  readonly client: ConnectedKubeClient;
  readonly node: FakeCsiNode;
  readonly operatorSocket: string;
  readonly spanSocket: string;
  readonly kubeletDirectory: string;
  readonly operatorHttpPort: () => number;
  stopOperator(): Promise<void>;
  startOperator(): Promise<void>;
  /** A second replica, with a socket of its own; returns what stops it. */
  startAnotherOperator(): Promise<() => Promise<void>>;
  stop(): Promise<void>;
}

/** As the operator's own default. */
const BUDGET_BYTES = 1024 * GIB;
const LOG_LEVEL = process.env["TIDEMARK_TEST_LOG"] === "debug" ? "debug" : "silent";

/** Long enough to be noticed. */
const NODE_LOSS_DELAY_MS = 500;
/** Often, since tests wait for it. */
const CONSOLIDATION_LOOK_MS = 500;

export async function startTestCluster(namespaceBudgetBytes = BUDGET_BYTES): Promise<TestCluster> {
  const log = createLogger("test", LOG_LEVEL);
  const directory = mkdtempSync(join(tmpdir(), "tidemark-operator-test-"));
  const controlPlane = await startApiUnderTest({ port: 0, log });
  const client = createKubeClient({
    connection: { server: controlPlane.url },
    effects: directEffects,
    log,
  });
  await bootstrap(client, {
    crdDirectory: "kustomize/foundation/crds",
    nodeName: NODE_NAME,
    initialSize: "1Gi",
    fsType: "btrfs",
  });
  const operatorSocket = join(directory, "controller.sock");
  const spanSocket = join(directory, "span-controller.sock");
  const agentSocket = join(directory, "node.sock");
  const kubeletDirectory = join(directory, "kubelet");
  const node = await startFakeCsiNode(client, NODE_NAME, agentSocket, log);
  let operator: Awaited<ReturnType<typeof startOperator>> | undefined;
  const stopOperator = async (): Promise<void> => {
    await stopParts(operator?.parts ?? []);
    operator = undefined;
  };
  const startReplica = (csiSocket: string, spanCsiSocket?: string) =>
    startOperator(
      {
        connection: readConnectionSettings({ server: controlPlane.url }, {}),
        identity: `operator-${randomUUID()}`,
        leaseNamespace: "tidemark-system",
        userName: "system:serviceaccount:tidemark-system:operator",
        guardsRequired: false,
        csiSocket,
        spanCsiSocket,
        namespaceBudgetBytes,
        podWebhook: undefined,
        metricsAuthentication: undefined,
        nodeLossDelayMs: NODE_LOSS_DELAY_MS,
        consolidationLookMs: CONSOLIDATION_LOOK_MS,
        httpHost: "127.0.0.1",
        httpPort: 0,
        logLevel: LOG_LEVEL,
        faults: [],
        effectLog: undefined,
      },
      log,
    );
  const start = async (): Promise<void> => {
    operator = await startReplica(operatorSocket, spanSocket);
  };
  await start();
  const settings = { nodeName: NODE_NAME, operatorSocket, agentSocket, kubeletDirectory };
  const standIns = await startStandIns(client, settings, directEffects, log);
  return {
    controlPlane,
    client,
    node,
    operatorSocket,
    spanSocket,
    kubeletDirectory,
    operatorHttpPort: () => operator?.httpPort ?? 0,
    stopOperator,
    startOperator: start,
    startAnotherOperator: async () => {
      const { parts } = await startReplica(join(directory, "second-controller.sock"));
      return () => stopParts(parts);
    },
    stop: async () => {
      await stopParts(standIns);
      await stopOperator();
      await node.stop();
      await client.close();
      await controlPlane.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

async function stopParts(parts: readonly Stoppable[]): Promise<void> {
  for (const { stop } of [...parts].reverse()) await stop();
}

/** The message of the Event on an object of this name that has the reason and contains the text, once there is one. */
export async function eventMessage(
  client: ConnectedKubeClient,
  name: string,
  reason: string,
  text: string,
): Promise<string | undefined> {
  const read = async (): Promise<string[]> =>
    (await client.list(EVENTS)).items
      .filter((event) => event.involvedObject.name === name && event.reason === reason)
      .map(({ message }) => message ?? "");
  const messages = await untilRead(`an Event ${reason} on ${name} that says "${text}"`, read, (all) =>
    all.some((message) => message.includes(text)),
  );
  return messages.find((message) => message.includes(text));
}
