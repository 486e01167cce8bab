// The operator, or the ca-publisher, as a process that dies by SIGKILL where faults are planted, and a life that is lived through all of its deaths, several in
// each life.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { LEASES } from "../../src/contracts/kubernetes/resources.ts";
import type { ConnectedKubeClient } from "../../src/platform/kube/client/http-client.ts";
import { bisect, tellCulprits } from "./bisect.ts";
import type { ProcessEnd } from "./bundle-process.ts";
import type { DeathNotes } from "./death-notes.ts";
import { deathPairs } from "./death-pairs.ts";
import { type MortalProcess, startDoomed } from "./doomed-process.ts";
import { isOf } from "./kill-coverage.ts";
import { NOT_DIED_AT } from "./not-died-at.ts";
import { untilQuiet } from "./until-quiet.ts";

export interface CrashingOperator extends MortalProcess {
  /** Where its bundle and its effect logs are. */
  readonly directory: string;
}

export interface CrashingOperatorOptions {
  /** Where its bundle and its sockets are. */
  readonly directory: string;
  readonly serverUrl: string;
  readonly client: ConnectedKubeClient;
  /** Beside those that every operator has here. */
  readonly args: readonly string[];
}

const PROGRAMS = {
  operator: {
    main: "./src/operator/main.ts",
    run: "runOperator",
    args: ["--http-host", "127.0.0.1", "--http-port", "0"],
  },
  "ca-publisher": { main: "./src/ca-publisher/main.ts", run: "runCaPublisher", args: [] },
} as const;

const REPOSITORY = fileURLToPath(new URL("../../", import.meta.url));
const RETRY_MS = 50;
const RETRIES_LIMIT = 600;
/** Of one life, by round: what a death keeps the operator from is left over for the next one. */
const DEATHS_OF_A_LIFE = [8, 4, 2, 1, 1];
/** The death that makes one fail is looked for, and that takes long enough. */
const FAILED_LIVES_LIMIT = 1;
/** An operator without an effect for so long has come to the end of what the life made it do. */
const QUIET_MS = 500;
const LAST_WORDS_LIMIT_MS = 5000;
/** A life that comes by dies there, and none must. */
const NOW_AND_THEN = NOT_DIED_AT.filter(({ nowAndThen }) => nowAndThen);
/** Of the long run, in each suite. */
const PAIRS = 30;

/** The operator's Lease is taken away when it starts, since nobody waits for that here. */
export async function createCrashingOperator(
  options: CrashingOperatorOptions,
  name: keyof typeof PROGRAMS = "operator",
): Promise<CrashingOperator> {
  const { directory, serverUrl, client } = options;
  const bundle = join(directory, `${name}.mjs`);
  const program = PROGRAMS[name];
  await writeBundle(bundle, program);
  const args = [bundle, "--server", serverUrl, "--log-level", "error", ...program.args, ...options.args];
  let child: ReturnType<typeof spawn> | undefined;
  let ended: Promise<ProcessEnd> = Promise.resolve({ code: 0, signal: null });
  return {
    directory,
    name,
    start: async (environment) => {
      await client.delete("test/lease", LEASES, { namespace: "tidemark-system", name: "tidemark-operator" });
      const started = spawn(process.execPath, args, {
        env: { PATH: process.env["PATH"], ...environment },
        stdio: ["ignore", "ignore", "inherit"],
      });
      child = started;
      ended = new Promise((resolve) => {
        started.once("exit", (code, signal) => resolve({ code, signal }));
      });
    },
    ended: () => ended,
    // Not SIGKILL: that is a death of the test's own making.
    stop: async () => {
      child?.kill("SIGTERM");
      await ended;
    },
  };
}

async function writeBundle(outfile: string, { main, run }: (typeof PROGRAMS)[keyof typeof PROGRAMS]): Promise<void> {
  const contents = `import { ${run} } from "${main}"; await ${run}(process.argv.slice(2));`;
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

export interface LivedDeaths extends DeathNotes {
  /** Passages of the undisturbed life, less those that not every life comes by. */
  readonly points: readonly string[];
  /** Which lives ended badly, and at which death; and points at which no life died. */
  readonly failures: readonly string[];
}

/**
 * Lives once undisturbed, then as often as it takes to die at each point that this passed, at several in each life, and then with pairs of
 * deaths. `renew`: after a life that failed the next one is lived in a new world.
 */
export async function liveWithEachDeath(
  suite: string,
  first: CrashingOperator,
  live: () => Promise<void>,
  renew: () => Promise<CrashingOperator>,
): Promise<LivedDeaths> {
  let operator = first;
  const attempt = async (some: readonly string[]): Promise<Lived> => {
    const lived = await liveAndDie(operator, some, live);
    if ("failure" in lived) operator = await renew();
    return lived;
  };
  const clean = await attempt([]);
  if ("failure" in clean) throw new Error(`a life without deaths failed: ${clean.failure}`);
  const passed = [...new Set(clean.passed)];
  const points = passed.filter((passage) => !NOW_AND_THEN.some((exception) => isOf(exception, passage)));
  const diedAt = new Set<string>();
  const failures: string[] = [];
  for (const deaths of DEATHS_OF_A_LIFE) {
    // What the operator passes where it finds another's write, or is late, depends on who is quicker, and comes another time.
    const left = (diedAt.size === 0 ? passed : points).filter((point) => !diedAt.has(point));
    for (const some of spread(left, deaths)) {
      if (failures.length === FAILED_LIVES_LIMIT) break;
      const lived = await attempt(some);
      for (const passage of lived.diedAt) diedAt.add(passage);
      if (!("failure" in lived)) continue;
      const culprits = await bisect(some, lived.failure, async (half) => {
        const again = await attempt(half);
        return "failure" in again ? again.failure : undefined;
      });
      failures.push(tellCulprits(some, lived.failure, culprits, (passage) => passage));
    }
  }
  const { pairs, tell } = deathPairs(suite, points, PAIRS);
  for (const pair of failures.length === 0 ? pairs : []) {
    const lived = await attempt(pair);
    if ("failure" in lived) failures.push(tell(pair, lived.failure));
    if (failures.length === FAILED_LIVES_LIMIT) break;
  }
  const missed = points.filter((point) => !diedAt.has(point)).map((point) => `${point}: the operator never died there`);
  const notes = { killsAt: [...points, ...diedAt], diedAt: [...diedAt] };
  return { ...notes, points, failures: failures.length > 0 ? failures : missed };
}

/** In lives of so many deaths at most, which lie as far from each other as can be. */
function spread(points: readonly string[], deaths: number): string[][] {
  const lives = Math.ceil(points.length / deaths);
  return Array.from({ length: lives }, (_, life) => points.filter((_point, index) => index % lives === life));
}

type Lived = Readonly<Record<"diedAt" | "passed", readonly string[]>> & ({ readonly failure: string } | object);

/** One life, in which the operator dies at each of these points that it comes by. */
async function liveAndDie(
  operator: CrashingOperator,
  points: readonly string[],
  live: () => Promise<void>,
): Promise<Lived> {
  const doomed = await startDoomed(operator, points, operator.directory);
  try {
    await live();
    // What ends the life is seen before the operator's last effect is logged, or has ended it.
    await untilQuiet([doomed], { quietMs: QUIET_MS, limitMs: LAST_WORDS_LIMIT_MS });
    await doomed.stop();
    return { diedAt: doomed.diedAt(), passed: doomed.passed() };
  } catch (error) {
    await doomed.stop().catch(() => undefined);
    return { diedAt: doomed.diedAt(), passed: doomed.passed(), failure: String(error) };
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
