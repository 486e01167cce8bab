// Starts the real processes, from the same program that users get, as children in groups of their own (Ctrl-C in the terminal
// reaches the demo alone), each recorded in the run directory. It knows their flags, and nothing of what they do.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { openSync } from "node:fs";
import { dirname, join } from "node:path";
import { formatQuantity } from "../../../src/contracts/quantities/quantity.ts";
import { withTimeLimit } from "../../../src/platform/process/async/limited-wait.ts";
import { waitUntil } from "../../../src/platform/process/async/pause.ts";
import type { MetricsUrls } from "../script/places.ts";
import { onLines } from "../writers/line-stream.ts";
import { freePort } from "./free-port.ts";
import { recordProcess } from "./run-directory.ts";

export const PROCESS_NAMES = ["standalone", "policy-engine", "operator", "agent"] as const;
export type ProcessName = (typeof PROCESS_NAMES)[number];

export interface Processes {
  /** The embedded control plane's address. */
  readonly server: string;
  /** What opens it: ca.crt, token, and config, a kubeconfig. */
  readonly credentialsDirectory: string;
  /** Where /metrics can be scraped. */
  readonly metricsUrls: MetricsUrls;
  readonly kubeletDirectory: string;
  readonly memberDirectory: string;
  /** Resolves when all of them say that they are ready. */
  ready(): Promise<void>;
  /** SIGKILL; resolves when it is dead. */
  killAgent(): Promise<void>;
  startAgent(): void;
  /** Starts the demo's writer with piped stdin and stdout. */
  startWriter(name: string, flags: readonly string[]): ChildProcess;
  /** Rejects when one of them ends by itself. */
  readonly failure: Promise<never>;
}

export interface ProcessOptions {
  readonly runDirectory: string;
  readonly storage: "real" | "simulated";
  /** Of the control plane; 0 picks a free one. */
  readonly port: number;
  readonly initialSizeBytes: number;
}

const NODE_NAME = "demo";
/** Of demo/main.ts; the others are commands of `tidemark`. */
const OWN_COMMANDS: ReadonlySet<string> = new Set(["standalone", "writer"]);
const LISTEN_LIMIT_MS = 20_000;
const READY_RETRY_MS = 20;

export function logFileOf(runDirectory: string, name: string): string {
  return join(runDirectory, `${name}.log`);
}

export async function startProcesses(options: ProcessOptions): Promise<Processes> {
  const { runDirectory } = options;
  const inRun = (name: string): string => join(runDirectory, name);
  const sockets = { operator: inRun("operator.sock"), agent: inRun("agent.sock"), samples: inRun("samples.sock") };
  const ports = { "policy-engine": await freePort(), operator: await freePort(), agent: await freePort() };
  const kubeletDirectory = inRun("kubelet");
  const memberDirectory = inRun("members");
  const credentialsDirectory = inRun("api");
  const children = watchChildren(runDirectory);
  const { start, failure } = children;

  const standalone = start("standalone", [
    ...["--port", String(options.port), "--write-credentials", credentialsDirectory],
    ...["--node-name", NODE_NAME, "--kubelet-directory", kubeletDirectory],
    ...["--operator-socket", sockets.operator, "--agent-socket", sockets.agent],
    ...["--initial-size", formatQuantity(options.initialSizeBytes), "--fs-type", "btrfs"],
  ]);
  const server = await Promise.race([addressOf(standalone), failure]);
  const common = (name: keyof typeof ports): string[] => [
    ...["--server", server, "--credentials", credentialsDirectory],
    ...["--http-host", "127.0.0.1", "--http-port", String(ports[name])],
  ];
  const startAgent = (): ChildProcess =>
    start("agent", [
      ...common("agent"),
      ...["--node-name", NODE_NAME, "--csi-socket", sockets.agent, "--engine", `unix://${sockets.samples}`],
      ...["--state-directory", inRun("state"), "--member-directory", memberDirectory],
      // There is no kubelet that would evict anything.
      ...["--kubelet-directory", kubeletDirectory, "--eviction-reserve", "0", "--storage", options.storage],
    ]);
  start("policy-engine", [...common("policy-engine"), "--samples-socket", sockets.samples]);
  start("operator", [...common("operator"), "--csi-socket", sockets.operator]);
  let agent = startAgent();
  const metricsUrl = (name: keyof typeof ports): string => `http://127.0.0.1:${ports[name]}/metrics`;
  return {
    server,
    credentialsDirectory,
    metricsUrls: {
      "policy-engine": metricsUrl("policy-engine"),
      operator: metricsUrl("operator"),
      agent: metricsUrl("agent"),
    },
    kubeletDirectory,
    memberDirectory,
    ready: () => Promise.race([untilReady(Object.values(ports)), failure]),
    killAgent: async () => {
      children.expectEnd(agent);
      const ended = once(agent, "exit");
      agent.kill("SIGKILL");
      await ended;
    },
    startAgent: () => {
      agent = startAgent();
    },
    startWriter: (name, flags) => startChild(runDirectory, name, "writer", flags),
    failure,
  };
}

interface Children {
  start(name: ProcessName, flags: readonly string[]): ChildProcess;
  /** From now on it may end. */
  expectEnd(child: ChildProcess): void;
  /** Rejects when one of them ends that may not. */
  readonly failure: Promise<never>;
}

function watchChildren(runDirectory: string): Children {
  const expectedToEnd = new WeakSet<ChildProcess>();
  let reportFailure: (error: Error) => void = () => undefined;
  const failure = new Promise<never>((_, reject) => {
    reportFailure = reject;
  });
  failure.catch(() => undefined); // the reader of it hears of the failure
  return {
    start: (name, flags) => {
      const child = startChild(runDirectory, name, name, flags);
      child.once("exit", (code, signal) => {
        if (!expectedToEnd.has(child))
          reportFailure(new Error(`${name} has ended by itself (${signal ?? `exit code ${code}`})`));
      });
      return child;
    },
    expectEnd: (child) => {
      expectedToEnd.add(child);
    },
    failure,
  };
}

function startChild(runDirectory: string, name: string, command: string, flags: readonly string[]): ChildProcess {
  const log = openSync(logFileOf(runDirectory, name), "a");
  const program = programOf(command);
  const child = spawn(process.execPath, [...process.execArgv, program, command, ...flags], {
    detached: true,
    stdio: ["pipe", "pipe", log],
  });
  if (child.pid === undefined) throw new Error(`${name} could not be started: ${process.execPath} ${program}`);
  recordProcess(runDirectory, child.pid);
  return child;
}

/** The demo's own program, or `tidemark`: next to it as a bundle (dist/demo/demo.mjs), and in the sources (demo/main.ts). */
function programOf(command: string): string {
  const own = process.argv[1] ?? "";
  if (OWN_COMMANDS.has(command)) return own;
  return join(dirname(own), own.endsWith(".ts") ? "../src/cli/main.ts" : "../tidemark.mjs");
}

/** The standalone process prints where it listens, once it does. */
async function addressOf(child: ChildProcess): Promise<string> {
  const { stdout } = child;
  if (stdout === null) throw new Error("bug: standalone's stdout is not piped");
  const said = new Promise<string>((resolve) => onLines(stdout, resolve));
  const line = await withTimeLimit(said, LISTEN_LIMIT_MS, (limitMs) => {
    throw new Error(`the control plane does not listen after ${limitMs} ms`);
  });
  return (JSON.parse(line) as { server: string }).server;
}

async function untilReady(ports: readonly number[]): Promise<void> {
  const deadlineMs = performance.now() + LISTEN_LIMIT_MS;
  for (const port of ports) {
    const url = `http://127.0.0.1:${port}/readyz`;
    if (!(await waitUntil(() => answersOk(url), deadlineMs - performance.now(), READY_RETRY_MS)))
      throw new Error(`${url} does not say ready after ${LISTEN_LIMIT_MS} ms`);
  }
}

async function answersOk(url: string): Promise<boolean> {
  try {
    return (await fetch(url)).ok;
  } catch {
    return false; // it does not listen yet
  }
}
