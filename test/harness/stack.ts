// The real stack for one test or benchmark: control plane, operator, policy-engine and agent from the bundle, each a process of
// its own, with everything that they make below one run directory in memory. Whatever happens, close() leaves nothing behind; after
// a SIGKILL the next start removes what was left.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pino } from "pino";
import { freePort } from "../../demo/show/run/free-port.ts";
import { createRunDirectory, removeRun, removeStaleRuns } from "../../demo/show/run/run-directory.ts";
import { NODE_STORAGES } from "../../src/contracts/kinds/node-storage.ts";
import type { KubeClient } from "../../src/platform/kube/client/client.ts";
import { createKubeClient } from "../../src/platform/kube/client/http-client.ts";
import { connectionOf, readConnectionSettings } from "../../src/platform/kube/client/kube-config.ts";
import { createCommandPort } from "../../src/platform/process/effects/command-port.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { agentEnvironment } from "./agent-environment.ts";
import { BUNDLE_PATH, type BundleProcess, createBundleProcess, DEMO_PATH, type Environment } from "./bundle-process.ts";
import { applyLvmClass, createLvmOfStack, type LvmOfStack, type LvmSettings } from "./lvm-of-stack.ts";
import { waitFor } from "./wait-for.ts";

export const NODE_NAME = "node-a";
export const STACK_PROCESSES = ["operator", "policy-engine", "agent"] as const;
export type StackProcess = (typeof STACK_PROCESSES)[number];

export const SPAN_SOCKETS = { operator: "span-operator.sock", agent: "span-agent.sock" } as const;

export interface StackOptions {
  /** Where run directories are made; in memory by default. */
  readonly base?: string;
  readonly initialSize?: string;
  readonly fsType?: "btrfs" | "ext4" | "xfs";
  /** Flags beyond those that tie the processes together. */
  readonly flags?: Readonly<Partial<Record<StackProcess | "standalone", readonly string[]>>>;
  /** False: the agent streams its samples to nobody. */
  readonly stream?: boolean;
  /** With the CSI services of spans, at SPAN_SOCKETS in its directory. */
  readonly spans?: boolean;
  /** With a volume group, lvmd and a class of the backend lvm, which has the parameters of the class of loop. */
  readonly lvm?: LvmSettings;
}

export interface Stack {
  readonly directory: string;
  readonly memberDirectory: string;
  readonly stateDirectory: string;
  readonly kubeletDirectory: string;
  readonly server: string;
  readonly client: KubeClient;
  readonly processes: Readonly<Record<StackProcess, BundleProcess>>;
  /** These, the control plane with its stand-ins, and lvmd. */
  readonly everyProcess: readonly BundleProcess[];
  /** Of each process' /metrics. */
  readonly httpPorts: Readonly<Record<StackProcess, number>>;
  /** Undefined: not asked for. */
  readonly lvm: LvmOfStack | undefined;
  /** Starts a process and waits until it is ready. */
  start(name: StackProcess, environment?: Environment, before?: readonly string[]): Promise<void>;
  /** The last lines that each process logged: for a test that failed. */
  tellLogs(): string;
  /** Ends, unmounts, detaches and deletes everything. Idempotent. */
  close(): Promise<void>;
}

/** Where the control plane writes what opens it. */
const CREDENTIALS = "api";
const BASE = "/dev/shm/tidemark-test";
const LOG_TAIL_LINES = 12;
const INTERRUPTED_EXIT_CODE = 130;
const CRD_DIRECTORY = fileURLToPath(new URL("../../kustomize/foundation/crds", import.meta.url));
const commands = createCommandPort(directEffects);

/** The control plane is running, the other processes are made but not started. */
export async function createStack(options: StackOptions = {}): Promise<Stack> {
  const base = options.base ?? BASE;
  mkdirSync(base, { recursive: true });
  await removeStaleRuns(base, commands);
  const directory = createRunDirectory(base);
  const interrupted = (): void =>
    void removeRun(directory, commands).finally(() => process.exit(INTERRUPTED_EXIT_CODE));
  process.once("SIGINT", interrupted);
  try {
    const stack = await createStackIn(directory, options);
    return { ...stack, close: () => stack.close().finally(() => process.off("SIGINT", interrupted)) };
  } catch (error) {
    process.off("SIGINT", interrupted);
    await removeRun(directory, commands);
    throw error;
  }
}

/** Everything is running and ready. */
export async function startStack(options: StackOptions = {}): Promise<Stack> {
  const stack = await createStack(options);
  try {
    await stack.lvm?.lvmd.start();
    await Promise.all(STACK_PROCESSES.map((name) => stack.start(name)));
    if (stack.lvm !== undefined) await untilClassIsTold(stack.client);
    return stack;
  } catch (error) {
    const logs = stack.tellLogs();
    await stack.close();
    throw new Error(`the stack did not start:\n${logs}`, { cause: error });
  }
}

async function createStackIn(directory: string, options: StackOptions): Promise<Stack> {
  const at = (name: string): string => join(directory, name);
  const [memberDirectory, stateDirectory, kubeletDirectory] = [at("members"), at("state"), at("kubelet")];
  for (const path of [memberDirectory, stateDirectory, kubeletDirectory]) mkdirSync(path, { recursive: true });
  const standalone = createBundleProcess(directory, "standalone", standaloneFlags(at, options), DEMO_PATH);
  standalone.start();
  const { server } = JSON.parse(await standalone.firstLine()) as { server: string };
  const credentials = at(CREDENTIALS);
  const connection = await connectionOf(readConnectionSettings({ server, credentials }, {}));
  const client = createKubeClient({ connection, effects: directEffects, log: pino({ level: "silent" }) });
  const httpPorts = {
    operator: await freePort(),
    "policy-engine": await freePort(),
    agent: await freePort(),
  };
  const process = (name: StackProcess, flags: readonly string[], always: Environment = {}): BundleProcess => {
    const args = [
      ...[name, "--server", server, "--credentials", credentials],
      ...["--http-host", "127.0.0.1", "--http-port", String(httpPorts[name])],
      ...flags,
      ...(options.flags?.[name] ?? []),
    ];
    return createBundleProcess(directory, name, args, BUNDLE_PATH, always);
  };
  const lvm = options.lvm && (await createLvmOfStack(directory, options.lvm));
  if (lvm !== undefined) await applyLvmClass(client, classParameters(options));
  const spans = (name: "operator" | "agent"): string[] =>
    options.spans === true ? ["--span-csi-socket", at(SPAN_SOCKETS[name])] : [];
  const stream = options.stream === false ? [] : ["--engine", `unix://${at("engine.sock")}`];
  const processes = {
    operator: process("operator", ["--csi-socket", at("operator.sock"), ...spans("operator")]),
    "policy-engine": process("policy-engine", ["--samples-socket", at("engine.sock")]),
    agent: process(
      "agent",
      [
        ...["--node-name", NODE_NAME, "--csi-socket", at("agent.sock"), "--state-directory", stateDirectory],
        ...["--member-directory", memberDirectory, "--kubelet-directory", kubeletDirectory, ...stream],
        ...spans("agent"),
        ...(lvm === undefined ? [] : ["--lvmd-socket", lvm.lvmd.socket]),
      ],
      agentEnvironment(),
    ),
  };
  const everyProcess = [standalone, ...Object.values(processes), ...(lvm === undefined ? [] : [lvm.lvmd.process])];
  return {
    ...{ directory, memberDirectory, stateDirectory, kubeletDirectory, server, client, processes, httpPorts, lvm },
    everyProcess,
    start: async (name, environment, before) => {
      processes[name].start(environment, before);
      await untilReady(processes[name], httpPorts[name]);
    },
    tellLogs: () => everyProcess.map(tailOf).join("\n"),
    close: async () => {
      await client.close();
      for (const one of everyProcess) one.signal("SIGCONT");
      await removeRun(directory, commands);
      await lvm?.ground.remove();
    },
  };
}

function classParameters({ initialSize, fsType = "btrfs" }: StackOptions): Record<string, string> {
  return { "csi.storage.k8s.io/fstype": fsType, ...(initialSize === undefined ? {} : { initialSize }) };
}

function standaloneFlags(
  at: (name: string) => string,
  { initialSize, fsType = "btrfs", flags = {} }: StackOptions,
): string[] {
  return [
    ...["standalone", "--port", "0", "--write-credentials", at(CREDENTIALS)],
    ...["--node-name", NODE_NAME, "--kubelet-directory", at("kubelet")],
    ...["--operator-socket", at("operator.sock"), "--agent-socket", at("agent.sock")],
    ...["--crd-directory", CRD_DIRECTORY, "--fs-type", fsType],
    ...(flags.standalone ?? []),
    ...(initialSize === undefined ? [] : ["--initial-size", initialSize]),
  ];
}

/** The operator makes no volume in a class that the node has not told of. */
async function untilClassIsTold(client: KubeClient): Promise<void> {
  await waitFor("the node to tell its device class of lvm", async () => {
    const storage = await client.get(NODE_STORAGES, { name: NODE_NAME });
    return storage?.status?.deviceClasses?.find(({ backend }) => backend === "lvm");
  });
}

/** Ready, or dead: a planted fault may end a process before it is ready. */
async function untilReady(process: BundleProcess, port: number): Promise<void> {
  const ready = waitFor(`${process.name} to be ready`, async () => {
    if (!process.running()) return true;
    const { ok } = await fetch(`http://127.0.0.1:${port}/readyz`);
    return ok ? true : undefined;
  });
  await ready;
}

function tailOf(process: BundleProcess): string {
  const lines = process.log().trimEnd().split("\n").slice(-LOG_TAIL_LINES);
  return [`--- ${process.name}`, ...lines.map(withoutStack)].join("\n");
}

function withoutStack(line: string): string {
  try {
    const { err, ...rest } = JSON.parse(line) as { err?: { message?: string } };
    return JSON.stringify({ ...rest, ...(err === undefined ? {} : { err: err.message }) });
  } catch {
    return line;
  }
}
