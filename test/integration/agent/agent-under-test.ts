// A real agent as users run it: its own process from the bundle, against an API server, with an engine's real
// sample server, in a directory of its own. Everything it leaves on the machine is taken away by `dispose`.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { credentials, Metadata } from "@grpc/grpc-js";
import { parse } from "yaml";
import { freePort } from "../../../demo/show/run/free-port.ts";
import { loopDevicesUnder, mountsUnder } from "../../../demo/show/run/mount-table.ts";
import { createNodePort, type NodePort } from "../../../demo/stand-ins/csi-client.ts";
import { NodeClient, VolumeCapability_AccessMode_Mode } from "../../../src/contracts/gen/csi/v1/csi.ts";
import type { Sample } from "../../../src/contracts/gen/tidemark/samples/v1/samples.ts";
import { volumeHandleOf } from "../../../src/contracts/identity.ts";
import {
  FILESYSTEM_LAYOUTS,
  type FilesystemLayout,
  type FilesystemLayoutSpec,
} from "../../../src/contracts/kinds/filesystem-layout.ts";
import { CUSTOM_RESOURCE_DEFINITIONS } from "../../../src/contracts/kubernetes/resources.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../../src/contracts/names.ts";
import type { ConditionType } from "../../../src/contracts/schema/condition.ts";
import type { Condition } from "../../../src/contracts/schema/schema.ts";
import { type ConnectedKubeClient, createKubeClient } from "../../../src/platform/kube/client/http-client.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { serveOnSocket } from "../../../src/platform/process/grpc.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { admitAnyone } from "../../../src/policy-engine/samples/sample-listener.ts";
import { createSampleServer, type SampleServer } from "../../../src/policy-engine/samples/sample-server.ts";
import { type ApiUnderTest, startApiUnderTest } from "../../harness/api-under-test.ts";
import { BUNDLE_PATH } from "../../harness/bundle-process.ts";
import { waitFor as waitForValue } from "../../harness/wait-for.ts";

const REPOSITORY = fileURLToPath(new URL("../../../", import.meta.url));
export const NODE_NAME = "node-a";
const ANSWER_LIMIT_MS = 2000;
/** Read once for all agents of a suite. */
const DEFINITIONS = readDefinitions();

export interface AgentUnderTest {
  readonly directory: string;
  /** Of the API server. */
  readonly serverUrl: string;
  readonly client: ConnectedKubeClient;
  readonly node: NodePort;
  readonly nodeClient: NodeClient;
  readonly engine: SampleServer;
  /** All samples that the engine got, in order. */
  readonly samples: Sample[];
  readonly metricsUrl: string;
  /** Resolves when its CSI socket answers, or it has ended. */
  startAgent(environment?: Record<string, string>, moreFlags?: Record<string, string>): Promise<void>;
  /** kill -9; resolves when it is gone. */
  killAgent(): Promise<void>;
  /** SIGTERM; resolves with the exit code. */
  stopAgent(): Promise<number | null>;
  /** Resolves when the process has ended by itself. */
  agentEnded(): Promise<void>;
  stopControlPlane(): Promise<void>;
  /** The agent's log so far. */
  log(): string;
  dispose(): Promise<void>;
}

export async function startAgentUnderTest(): Promise<AgentUnderTest> {
  const directory = mkdtempSync("/dev/shm/tidemark-agent-test-");
  for (const name of ["kubelet", "run"]) mkdirSync(join(directory, name));
  const log = createLogger("test", "warn");
  const controlPlane = await startApiUnderTest({ port: 0, log });
  const client = createKubeClient({ connection: { server: controlPlane.url }, effects: directEffects, log });
  await applyDefinitions(client);
  const samples: Sample[] = [];
  const events = {
    onHello: () => {},
    onSamples: (_node: string, received: readonly Sample[]) => samples.push(...received),
    onGone: () => {},
  };
  const engine = createSampleServer(events, admitAnyone, log);
  const enginePath = join(directory, "run/engine.sock");
  const engineServer = await serveOnSocket(enginePath, [engine]);
  const csiPath = join(directory, "run/csi.sock");
  const logPath = join(directory, "agent.log");
  const httpPort = await freePort();
  const node = createNodePort(csiPath, directEffects);
  const nodeClient = new NodeClient(`unix://${csiPath}`, credentials.createInsecure(), {
    "grpc.max_reconnect_backoff_ms": 200,
    "grpc.initial_reconnect_backoff_ms": 50,
  });
  let child: ChildProcess | undefined;
  let plane: ApiUnderTest | undefined = controlPlane;

  const ended = (): Promise<number | null> =>
    new Promise((resolve) => {
      if (child === undefined || child.exitCode !== null || child.signalCode !== null) resolve(child?.exitCode ?? null);
      else child.once("exit", (code) => resolve(code));
    });
  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    child?.kill(signal);
    return ended();
  };
  const stopControlPlane = async (): Promise<void> => {
    await plane?.close();
    plane = undefined;
  };
  return {
    directory,
    serverUrl: controlPlane.url,
    client,
    node,
    nodeClient,
    engine,
    samples,
    metricsUrl: `http://127.0.0.1:${httpPort}/metrics`,
    startAgent: async (environment = {}, moreFlags = {}) => {
      const flags: Record<string, string> = {
        server: controlPlane.url,
        "node-name": NODE_NAME,
        "csi-socket": csiPath,
        engine: `unix://${enginePath}`,
        "state-directory": join(directory, "state"),
        "member-directory": join(directory, "members"),
        "kubelet-directory": join(directory, "kubelet"),
        "http-host": "127.0.0.1",
        "http-port": String(httpPort),
        "log-level": "debug",
        ...moreFlags,
      };
      const args = Object.entries(flags).flatMap(([flag, value]) => [`--${flag}`, value]);
      child = spawn(process.execPath, [BUNDLE_PATH, "agent", ...args], {
        env: { ...process.env, NODE_OPTIONS: "", ...environment },
        stdio: ["ignore", "ignore", "pipe"],
      });
      child.stderr?.on("data", (text: Buffer) => appendFileSync(logPath, text));
      const started = child;
      const gone = (): boolean => started.exitCode !== null || started.signalCode !== null;
      await waitFor("the agent's socket", async () => gone() || (await answers(nodeClient)));
    },
    killAgent: async () => void (await end("SIGKILL")),
    stopAgent: () => end("SIGTERM"),
    agentEnded: async () => void (await ended()),
    stopControlPlane,
    log: () => (existsSync(logPath) ? readFileSync(logPath, "utf8") : ""),
    dispose: async () => {
      await end("SIGKILL");
      node.close();
      nodeClient.close();
      await engineServer.close();
      await client.close();
      await stopControlPlane();
      await takeAway(directory);
    },
  };
}

function answers(nodeClient: NodeClient): Promise<boolean> {
  return new Promise((resolve) => {
    const options = { deadline: Date.now() + ANSWER_LIMIT_MS };
    nodeClient.nodeGetInfo({}, new Metadata(), options, (error) => resolve(error === null));
  });
}

/** What an agent left: mounts, loop devices, files. Commands of a killed agent may hold a mount a little longer than it lived. */
async function takeAway(directory: string): Promise<void> {
  await waitForValue(`${directory} to be unmounted`, () => {
    for (const path of mountsUnder(directory)) execFileSync("/usr/bin/umount", [path], { stdio: "pipe" });
    return true;
  });
  for (const device of loopDevicesUnder(directory)) execFileSync("/usr/sbin/losetup", ["--detach", device]);
  rmSync(directory, { recursive: true, force: true });
}

type Definition = Parameters<ConnectedKubeClient["apply"]>[2];

function readDefinitions(): Definition[] {
  const directory = join(REPOSITORY, "kustomize/foundation/crds");
  const files = readdirSync(directory).filter((name) => name.startsWith("tidemark.dev_"));
  return files.map((file) => parse(readFileSync(join(directory, file), "utf8")) as Definition);
}

async function applyDefinitions(client: ConnectedKubeClient): Promise<void> {
  for (const definition of DEFINITIONS)
    await client.apply("test/definition", CUSTOM_RESOURCE_DEFINITIONS, definition, { fieldManager: "test" });
  await waitFor("the kinds to be served", () =>
    client.list(FILESYSTEM_LAYOUTS).then(
      () => true,
      () => false,
    ),
  );
}

/** Waits for a condition of the outside world; the limit only ends a test that has failed. */
export async function waitFor(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  await waitForValue(what, async () => (await holds()) || undefined);
}

/** One volume as the operator and kubelet would handle it. */
export interface VolumeUnderTest {
  readonly handle: string;
  readonly stagingPath: string;
  readonly targetPath: string;
  readonly memberPath: string;
  /** Server-side apply of the operator's part of the layout. */
  applyLayout(change?: Partial<FilesystemLayoutSpec>): Promise<void>;
  applyGrant(grant: FilesystemLayoutSpec["emergency"]): Promise<void>;
  layout(): Promise<FilesystemLayout>;
  /** Of its layout's status; undefined: it says none of this type. */
  condition(type: ConditionType): Promise<Condition | undefined>;
  stage(): Promise<void>;
  publish(readonly?: boolean): Promise<void>;
  unpublish(): Promise<void>;
  unstage(): Promise<void>;
  capacityBytes(): number;
  availableBytes(): number;
}

export function volumeUnderTest(
  agent: AgentUnderTest,
  volumeUID: string,
  size: string,
  fsType: "btrfs" | "xfs" = "btrfs",
): VolumeUnderTest {
  const handle = volumeHandleOf(volumeUID);
  const memberFile = `${handle}-0`;
  const stagingPath = join(agent.directory, "kubelet/plugins", handle, "globalmount");
  const targetPath = join(agent.directory, "kubelet/pods", handle, "mount");
  const volumeCapability = {
    accessType: { $case: "mount" as const, value: { fsType: "", mountFlags: [], volumeMountGroup: "" } },
    accessMode: { mode: VolumeCapability_AccessMode_Mode.SINGLE_NODE_WRITER },
  };
  const request = {
    ...{ volumeId: handle, stagingTargetPath: stagingPath, volumeCapability },
    ...{ publishContext: {}, secrets: {}, volumeContext: {} },
  };
  const spec: FilesystemLayoutSpec = {
    claimRef: { namespace: "shop", name: "data", uid: volumeUID },
    volumeUID,
    backend: "loop",
    fsType,
    nodeName: NODE_NAME,
    members: [{ name: "member-0", size, source: { loop: { file: memberFile } } }],
  };
  const apply = (fieldManager: string, fields: object) =>
    agent.client.apply(
      "test/layout",
      FILESYSTEM_LAYOUTS,
      { apiVersion: API_VERSION, kind: "FilesystemLayout", metadata: { name: handle }, spec: fields },
      { fieldManager },
    );
  const layout = async (): Promise<FilesystemLayout> => {
    const found = await agent.client.get(FILESYSTEM_LAYOUTS, { name: handle });
    if (found === undefined) throw new Error(`no layout ${handle}`);
    return found;
  };
  return {
    handle,
    stagingPath,
    targetPath,
    memberPath: join(agent.directory, "members", memberFile),
    applyLayout: async (change = {}) => void (await apply(FIELD_MANAGERS.operator, { ...spec, ...change })),
    applyGrant: async (emergency) => void (await apply(FIELD_MANAGERS.policyEngine, { emergency })),
    layout,
    condition: async (wanted) => (await layout()).status?.conditions?.find(({ type }) => type === wanted),
    stage: async () => {
      mkdirSync(stagingPath, { recursive: true });
      await agent.node.stage(request);
    },
    publish: async (readonly = false) => {
      mkdirSync(join(targetPath, ".."), { recursive: true });
      await agent.node.publish({ ...request, targetPath, readonly });
    },
    unpublish: () => agent.node.unpublish({ volumeId: handle, targetPath }),
    unstage: () => agent.node.unstage({ volumeId: handle, stagingTargetPath: stagingPath }),
    capacityBytes: () => {
      const { blocks, bsize } = statfsSync(stagingPath);
      return blocks * bsize;
    },
    availableBytes: () => {
      const { bavail, bsize } = statfsSync(stagingPath);
      return bavail * bsize;
    },
  };
}
