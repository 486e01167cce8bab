// The operator dies by SIGKILL before and after every write of a span's life, and the life ends as it would have: nothing is left
// behind, nothing is made twice. The node is played by its reports; what it does to devices has a crash test of its own.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { build } from "esbuild";
import { FILESYSTEMS } from "../../src/api/filesystem.ts";
import type { FilesystemLayoutStatus } from "../../src/api/filesystem-layout.ts";
import { type ControlPlane, startControlPlane } from "../../src/apiserver/server.ts";
import { type ConnectedKubeClient, createKubeClient } from "../../src/kube/http-client.ts";
import { LEASES, NAMESPACES } from "../../src/kube/resources.ts";
import { directEffects } from "../../src/process/effects.ts";
import { createLogger } from "../../src/process/log.ts";
import { bootstrap } from "../../src/standalone/bootstrap.ts";
import { createZoneNode, type MemberSidecars, startMemberSidecars } from "../fakes/member-sidecars.ts";
import { untilRead } from "../integration/operator/cluster.ts";
import { isAttached, type SpanUnderTest, spanUnderTest } from "../integration/operator/span-under-test.ts";

const REPOSITORY = fileURLToPath(new URL("../../", import.meta.url));
const NODE_NAME = "node-1";
const MATRIX_LIMIT_MS = 900_000;
const RETRY_MS = 50;
const RETRIES_LIMIT = 600;
const ATTEMPTS_LIMIT = 5;
const DIED: string = "the operator died there, and the life ended as it should";
const NOT_PASSED: string = "the operator did not die there";
/** In the background, at their own times; and once in a cluster. */
const NOT_OF_THE_LIFE = /^(lease|event|member-guard)\/|^member\/create-namespace\//;

let directory: string;
let controlPlane: ControlPlane;
let client: ConnectedKubeClient;
let sidecars: MemberSidecars;
let span: SpanUnderTest;
let operator: ReturnType<typeof createOperator>;

beforeAll(async () => {
  const log = createLogger("test", "silent");
  directory = mkdtempSync(join(tmpdir(), "tidemark-span-crash-"));
  controlPlane = await startControlPlane({ port: 0, log });
  client = createKubeClient({ connection: { server: controlPlane.url }, effects: directEffects, log });
  await bootstrap(client, {
    crdDirectory: "kustomize/base/crds",
    nodeName: NODE_NAME,
    initialSize: "1Gi",
    fsType: "btrfs",
  });
  const object = (kind: string, name: string) => ({ apiVersion: "v1", kind, metadata: { name } });
  await client.create("test/namespace", NAMESPACES, object("Namespace", "shop"));
  await createZoneNode(client, "node-a");
  sidecars = await startMemberSidecars(client, log);
  await bundle();
  const spanSocket = join(directory, "span.sock");
  span = spanUnderTest({ client, spanSocket });
  operator = createOperator(spanSocket);
}, 120_000);
afterAll(async () => {
  span.close();
  await operator.stop();
  await sidecars.stop();
  await client.close();
  await controlPlane.close();
  rmSync(directory, { recursive: true, force: true });
}, 120_000);

it(
  "a span's life ends as it should, wherever the operator dies in it",
  async () => {
    const log = join(directory, "effects");
    writeFileSync(log, "");
    await operator.start({ TIDEMARK_EFFECT_LOG: log });
    await live();
    await operator.stop();
    const passages = new Set(readFileSync(log, "utf8").split("\n").filter(Boolean));
    const points = [...passages].filter((passage) => !NOT_OF_THE_LIFE.test(passage));
    expect(points.length).toBeGreaterThan(30);
    const failures: string[] = [];
    for (const point of points) {
      // What the operator passes where it finds another's write, or is late, depends on who is quicker, and comes another time.
      let outcome = NOT_PASSED;
      for (let attempt = 1; attempt <= ATTEMPTS_LIMIT && outcome === NOT_PASSED; attempt += 1)
        outcome = await liveAndDie(point);
      if (outcome !== DIED) failures.push(`${point}: ${outcome}`);
    }
    expect(failures).toEqual([]);
  },
  MATRIX_LIMIT_MS,
);

/** How the life ended in which the operator was to die at this point. */
async function liveAndDie(point: string): Promise<string> {
  await operator.start({ TIDEMARK_FAULT: point });
  try {
    await live();
    return operator.deaths() === 0 ? NOT_PASSED : DIED;
  } catch (error) {
    return String(error);
  } finally {
    await operator.stop();
  }
}

/** Made, used, extended by a member, shrunk by it again, given a spare and then a smaller one, unmounted, deleted. */
async function live(): Promise<void> {
  const request = span.request({ memberStorageClassName: "member-class", spareMembers: "1" });
  const claim = request.parameters["csi.storage.k8s.io/pvc/name"] ?? "";
  const handle = (await persist(() => span.create(request))).volume?.volumeId ?? "";
  await persist(() => span.publish(handle, "node-a"));
  await untilAttached(handle, "m0");
  await span.report(handle, mounted({ m0: "2Gi" }));
  await span.target(claim, "3Gi", "2Gi");
  await untilAttached(handle, "m1");
  await span.report(handle, mounted({ m0: "2Gi", m1: "1Gi" }));
  await span.target(claim, "2Gi", "3Gi");
  await span.untilLayout("m1 is to go", handle, ({ spec }) => spec.members?.[1]?.state === "Removed");
  await span.report(handle, mounted({ m0: "2Gi" }, { m1: "1Gi" }));
  await span.untilLayout("m1 has left", handle, ({ spec }) => spec.members?.length === 1);
  expect(await span.claims(handle)).toEqual([`${handle}-m0`]);
  await span.grant(handle, "4Gi");
  await untilAttached(handle, "m2");
  await span.grant(handle, "3Gi");
  await span.untilLayout("m2 is to go", handle, ({ spec }) => spec.members?.[1]?.state === "Removed");
  await span.report(handle, mounted({ m0: "2Gi" }, { m2: "2Gi" }));
  await untilAttached(handle, "m3");
  expect(await span.claims(handle)).toEqual([`${handle}-m0`, `${handle}-m3`]);
  await span.report(handle, { ...mounted({ m0: "2Gi" }), mounted: false });
  await persist(() => span.unpublish(handle, "node-a"));
  await persist(() => span.remove(handle));
  await untilRead(
    "no volume is left",
    () => span.volumes(handle),
    (names) => names.length === 0,
  );
  expect(await span.claims(handle)).toEqual([]);
  expect(await span.layout(handle)).toBeUndefined();
  expect(await span.attachments()).toEqual([]);
  expect(await client.get(FILESYSTEMS, { namespace: "shop", name: claim })).toBeUndefined();
}

function mounted(present: Record<string, string>, removed: Record<string, string> = {}): FilesystemLayoutStatus {
  const of = (sizes: Record<string, string>, state: "Present" | "Removed") =>
    Object.entries(sizes).map(([name, size]) => ({ name, size, state }));
  return { nodeName: "node-a", mounted: true, members: [...of(present, "Present"), ...of(removed, "Removed")] };
}

async function untilAttached(handle: string, name: string): Promise<void> {
  await span.untilLayout(`${name} is attached`, handle, isAttached(name));
}

/** As a sidecar calls: again and again. */
async function persist<T>(call: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await call();
    } catch (error) {
      if (attempt === RETRIES_LIMIT) throw error;
      await sleep(RETRY_MS);
    }
  }
}

/** Started again at once when it dies by SIGKILL, as kubelet would; its Lease is taken away, since nobody waits for that here. */
function createOperator(spanSocket: string) {
  let deaths = 0;
  let stopping = false;
  let child: ReturnType<typeof spawn> | undefined;
  let ended: Promise<void> = Promise.resolve();
  const args = [
    join(directory, "operator.mjs"),
    ...["--server", controlPlane.url, "--http-host", "127.0.0.1", "--http-port", "0", "--log-level", "error"],
    ...["--csi-socket", join(directory, "local.sock"), "--span-csi-socket", spanSocket],
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
    start: async (environment: Record<string, string>): Promise<void> => {
      deaths = 0;
      stopping = false;
      await run(environment);
    },
    stop: async (): Promise<void> => {
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

async function bundle(): Promise<void> {
  const contents = `import { runOperator } from "./src/operator/main.ts"; await runOperator(process.argv.slice(2));`;
  const banner =
    "import { createRequire as bundleRequire } from 'node:module'; const require = bundleRequire(import.meta.url);";
  await build({
    stdin: { contents, resolveDir: REPOSITORY, loader: "ts" },
    outfile: join(directory, "operator.mjs"),
    bundle: true,
    platform: "node",
    target: "node20.19",
    format: "esm",
    banner: { js: banner },
  });
}
