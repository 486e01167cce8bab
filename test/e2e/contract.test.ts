// The suites that say what the embedded control plane does, against a real kube-apiserver: what differs there is a fault of the
// embedded one. They speak plain HTTP, as kubectl's proxy offers it.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { type ClusterUnderTest, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn } from "./describe-on.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 600_000;
const SUITES = ["test/contract", "test/integration/policy-engine/policy-admission.test.ts"];
/** As of now; fewer would mean that some are not run. */
const TESTS_MIN = 300;
/** By `itEmbedded`. */
const SKIPPED_COUNT = 2;

describeOn("any", "a real kube-apiserver", [], () => {
  let tested: ClusterUnderTest;
  let proxy: ChildProcess;
  let url: string;

  beforeAll(async () => {
    // No suite of it runs a pod.
    tested = await startClusterUnderTest({ nodes: 0 });
    const kubectl = tested.cluster?.programs.kubectl ?? "kubectl";
    proxy = spawn(kubectl, ["--kubeconfig", tested.kubeconfig, "proxy", "--port=0", "--disable-filter=true"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = (await once(createInterface({ input: proxy.stdout ?? process.stdin }), "line")) as [string];
    url = `http://${/127\.0\.0\.1:\d+/.exec(line)?.[0] ?? line}`;
  }, BUILD_LIMIT_MS);

  afterAll(async () => {
    proxy?.kill();
    await tested?.close();
  }, LIMIT_MS);

  it(
    "answers as the contract says, and refuses the policies that we say are refused",
    () => {
      const { status, stderr } = spawnSync("node_modules/.bin/jest", ["--runInBand", ...SUITES], {
        encoding: "utf8",
        env: { ...process.env, TIDEMARK_CONTRACT_SERVER: url },
        timeout: LIMIT_MS,
      });
      expect({ status, output: status === 0 ? "" : stderr }).toEqual({ status: 0, output: "" });
      const [, skipped, passed] = /Tests: +(?:(\d+) skipped, )?(\d+) passed/.exec(stderr) ?? [];
      expect(Number(passed)).toBeGreaterThanOrEqual(TESTS_MIN);
      expect(Number(skipped)).toBe(SKIPPED_COUNT);
    },
    LIMIT_MS,
  );
});
