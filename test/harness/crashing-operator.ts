// The operator as a process that dies by SIGKILL where a fault is planted, and a life that is lived through each of its deaths.
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { ConnectedKubeClient } from "../../src/kube/http-client.ts";
import { LEASES } from "../../src/kube/resources.ts";

export interface CrashingOperator {
  /** Since its start. */
  deaths(): number;
  start(environment: Record<string, string>): Promise<void>;
  stop(): Promise<void>;
}

export interface CrashingOperatorOptions {
  /** Where its bundle and its sockets are. */
  readonly directory: string;
  readonly serverUrl: string;
  readonly client: ConnectedKubeClient;
  /** Beside those that every operator has here. */
  readonly args: readonly string[];
}

const REPOSITORY = fileURLToPath(new URL("../../", import.meta.url));
const ATTEMPTS_LIMIT = 5;
const RETRY_MS = 50;
const RETRIES_LIMIT = 600;
/** What a life's last effect takes to be logged, or to end the operator. */
const LAST_WORDS_MS = 2000;
const LOOK_MS = 20;
const DIED: string = "the operator died there, and the life ended as it should";
const NOT_PASSED: string = "the operator did not die there";
/** In the background, at their own times; and once in a cluster. */
const NOT_OF_A_LIFE = /^(lease|event|member-guard)\/|^member\/create-namespace\//;

/** Started again at once when it dies by SIGKILL, as kubelet would; its Lease is taken away, since nobody waits for that here. */
export async function createCrashingOperator(options: CrashingOperatorOptions): Promise<CrashingOperator> {
  const { directory, serverUrl, client } = options;
  const bundle = join(directory, "operator.mjs");
  await writeBundle(bundle);
  let deaths = 0;
  let stopping = false;
  let child: ReturnType<typeof spawn> | undefined;
  let ended: Promise<void> = Promise.resolve();
  const args = [
    bundle,
    ...["--server", serverUrl, "--http-host", "127.0.0.1", "--http-port", "0", "--log-level", "error"],
    ...options.args,
  ];
  const run = async (environment: Record<string, string>): Promise<void> => {
    await client.delete("test/lease", LEASES, { namespace: "tidemark-system", name: "tidemark-operator" });
    if (stopping) return; // it died a moment before it was to be stopped
    const started = spawn(process.execPath, args, {
      env: { PATH: process.env["PATH"], ...environment },
      stdio: ["ignore", "ignore", "inherit"],
    });
    child = started;
    ended = new Promise((resolve) => {
      started.once("exit", (_code, signal) => {
        if (signal === "SIGKILL" && !stopping) {
          deaths += 1;
          void run({}).then(resolve);
        } else resolve();
      });
    });
  };
  return {
    deaths: () => deaths,
    start: async (environment) => {
      deaths = 0;
      stopping = false;
      await run(environment);
    },
    stop: async () => {
      stopping = true;
      const end = new Promise<void>((resolve) => {
        if (child === undefined || child.exitCode !== null || child.signalCode !== null) resolve();
        else child.once("exit", () => resolve());
      });
      child?.kill("SIGKILL");
      await end;
      await ended;
    },
  };
}

async function writeBundle(outfile: string): Promise<void> {
  const contents = `import { runOperator } from "./src/operator/main.ts"; await runOperator(process.argv.slice(2));`;
  const banner =
    "import { createRequire as bundleRequire } from 'node:module'; const require = bundleRequire(import.meta.url);";
  await build({
    stdin: { contents, resolveDir: REPOSITORY, loader: "ts" },
    outfile,
    bundle: true,
    platform: "node",
    target: "node20.19",
    format: "esm",
    banner: { js: banner },
  });
}

/** Lives once undisturbed, and then once for each point that this passed, with a death there. Points, and those at which it ended badly. */
export async function liveWithEachDeath(
  operator: CrashingOperator,
  directory: string,
  live: () => Promise<void>,
): Promise<{ readonly points: readonly string[]; readonly failures: readonly string[] }> {
  const log = join(directory, "effects");
  writeFileSync(log, "");
  await operator.start({ TIDEMARK_EFFECT_LOG: log });
  await live();
  await sleep(LAST_WORDS_MS);
  await operator.stop();
  const passages = new Set(readFileSync(log, "utf8").split("\n").filter(Boolean));
  const points = [...passages].filter((passage) => !NOT_OF_A_LIFE.test(passage));
  const failures: string[] = [];
  for (const point of points) {
    // What the operator passes where it finds another's write, or is late, depends on who is quicker, and comes another time.
    let outcome = NOT_PASSED;
    for (let attempt = 1; attempt <= ATTEMPTS_LIMIT && outcome === NOT_PASSED; attempt += 1)
      outcome = await liveAndDie(operator, point, live);
    if (outcome !== DIED) failures.push(`${point}: ${outcome}`);
  }
  return { points, failures };
}

/** How the life ended in which the operator was to die at this point. */
async function liveAndDie(operator: CrashingOperator, point: string, live: () => Promise<void>): Promise<string> {
  await operator.start({ TIDEMARK_FAULT: point });
  try {
    await live();
    // What ends the life is seen before the operator has died of it.
    for (let waitedMs = 0; operator.deaths() === 0 && waitedMs < LAST_WORDS_MS; waitedMs += LOOK_MS)
      await sleep(LOOK_MS);
    return operator.deaths() === 0 ? NOT_PASSED : DIED;
  } catch (error) {
    return String(error);
  } finally {
    await operator.stop();
  }
}

/** As a sidecar calls: again and again. */
export async function persist<T>(call: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await call();
    } catch (error) {
      if (attempt === RETRIES_LIMIT) throw error;
      await sleep(RETRY_MS);
    }
  }
}
