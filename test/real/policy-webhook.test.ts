// kubectl, a kube-apiserver and the manifests of the component policy-admission, with policy-engine and ca-publisher as processes of the
// bundle: what a person reads who applies, diffs or tries a policy, and what the webhook never stands in the way of.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { stringify } from "yaml";
import { freePort } from "../../demo/show/run/free-port.ts";
import { POLICY_WEBHOOK } from "../../src/contracts/names.ts";
import type { AnyPolicy } from "../../src/policy-engine/policies/compile-policy.ts";
import { aVolumePolicy, EXTEND_AT_80 } from "../builders/policy.ts";
import { worstPolicy } from "../builders/worst-policy.ts";
import type { ApiUnderTest } from "../harness/api-under-test.ts";
import { type BundleProcess, createBundleProcess } from "../harness/bundle-process.ts";
import { kustomizeWith, type Manifest, manifestsOf } from "../harness/kustomize.ts";
import { describeReal } from "../harness/real-parts.ts";
import { waitFor } from "../harness/wait-for.ts";
import { startKubeApiServer } from "../real-api/kube-apiserver.ts";

const LIMIT_MS = 300_000;
const SYSTEM_NAMESPACE = "tidemark-system";
/** Of what kubectl itself needs to start, on a busy machine. */
const KUBECTL_MS = 3000;
const ANSWER_LIMIT_MS = 2000;

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface Configuration extends Manifest {
  readonly webhooks: readonly [{ readonly clientConfig: { readonly service: object } }];
}

describeReal("a policy that is applied with kubectl", ["cluster", "bundle"], () => {
  let api: ApiUnderTest;
  let directory: string;
  let engines: readonly BundleProcess[];
  let ports: readonly number[];
  let publisher: BundleProcess;

  const kubectl = (...args: readonly string[]): Promise<Ended> =>
    new Promise((resolve) => {
      const all = ["--server", api.url, "--cache-dir", join(directory, "cache"), ...args];
      const child = execFile("kubectl", all, { maxBuffer: 1 << 26 }, (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : (child.exitCode ?? 1), stdout, stderr }),
      );
    });
  const well = async (...args: readonly string[]): Promise<Ended> => {
    const ended = await kubectl(...args);
    if (ended.code !== 0) throw new Error(`kubectl ${args.join(" ")}: ${ended.stderr}`);
    return ended;
  };
  const file = (name: string, ...objects: readonly object[]): string => {
    const path = join(directory, name);
    writeFileSync(path, objects.map((object) => stringify(object)).join("---\n"));
    return path;
  };
  const named = (name: string, when: string = EXTEND_AT_80.when, labels: Record<string, string> = {}): AnyPolicy => {
    const policy = aVolumePolicy({ rules: [{ ...EXTEND_AT_80, when }] }, { name });
    return { ...policy, metadata: { namespace: "shop", name, labels } };
  };
  const WRONG = "volume.usedRatio >= 0.5\n  && volume.usedratio >= 0.8";

  /** The API server asks this replica: what resolves names in a cluster is not here, so the Service leads to this machine. */
  async function askReplica(port: number): Promise<void> {
    const manifests = manifestsOf(kustomizeWith("base", {}, ["components/policy-admission"]));
    const configuration = manifests.find(({ kind }) => kind === "ValidatingWebhookConfiguration") as Configuration;
    const [webhook] = configuration.webhooks;
    const clientConfig = { ...webhook.clientConfig, service: { ...webhook.clientConfig.service, port } };
    const changed = { ...configuration, webhooks: [{ ...webhook, clientConfig }] };
    await well("apply", "--server-side", "-f", file("configuration.yaml", changed));
  }
  const tried = (policy: AnyPolicy) => kubectl("apply", "--dry-run=server", "-f", file("tried.yaml", policy));
  const untilRefused = () =>
    waitFor("a refusal", async () => ((await tried(named("probe", WRONG))).code === 0 ? undefined : true), {
      limitMs: LIMIT_MS / 3,
      intervalMs: 500,
    });

  beforeAll(async () => {
    api = await startKubeApiServer(0);
    directory = mkdtempSync(join(tmpdir(), "tidemark-policy-webhook-"));
    await well("apply", "--server-side", "-k", "kustomize/foundation");
    await waitFor("policies to be served", async () => ((await kubectl("get", "vpol")).code === 0 ? true : undefined));
    for (const name of [SYSTEM_NAMESPACE, "shop", "team"]) await well("create", "namespace", name);
    const secrets = manifestsOf(kustomizeWith("base", {}, ["components/policy-admission"])).filter(
      ({ kind, metadata }) => kind === "Secret" && metadata.name.startsWith("tidemark-policy-webhook-"),
    );
    expect(secrets).toHaveLength(2);
    const service = {
      apiVersion: "v1",
      kind: "Service",
      metadata: { namespace: SYSTEM_NAMESPACE, name: POLICY_WEBHOOK.service },
      spec: { type: "ExternalName", externalName: "localhost" },
    };
    await well("apply", "--server-side", "-f", file("objects.yaml", ...secrets, service));
    ports = [await freePort(), await freePort()];
    const common = ["--server", api.url];
    const http = ["--http-host", "127.0.0.1", "--http-port", "0"];
    engines = ports.map((port, index) =>
      createBundleProcess(directory, `policy-engine-${index}`, [
        ...["policy-engine", ...common, ...http, "--lease-namespace", SYSTEM_NAMESPACE],
        ...["--samples-socket", join(directory, `samples-${index}.sock`), "--policy-webhook-port", `${port}`],
      ]),
    );
    publisher = createBundleProcess(directory, "ca-publisher", ["ca-publisher", ...common, "--webhook", "policies"]);
    for (const process of [...engines, publisher]) process.start({ POD_NAMESPACE: SYSTEM_NAMESPACE });
    for (const process of [...engines, publisher]) process.firstLine().catch(() => undefined);
    await askReplica(ports[0] ?? 0);
    await untilRefused();
  }, LIMIT_MS);
  afterAll(async () => {
    for (const process of [...(engines ?? []), publisher]) await process?.kill();
    await api?.close();
    rmSync(directory, { recursive: true, force: true });
  }, LIMIT_MS);

  const REFUSED = [
    'admission webhook "policies.tidemark.dev" denied the request: VolumePolicy shop/wrong does not compile:',
    "spec.rules[0].when, line 2, column 13: volume has no field usedratio",
    "      && volume.usedratio >= 0.8",
    "                ^",
    "    hint: did you mean usedRatio?",
  ].join("\n");

  it.each([
    ["apply", ["apply"]],
    ["apply by the server's side", ["apply", "--server-side"]],
    ["apply that is only tried", ["apply", "--dry-run=server"]],
    ["create", ["create"]],
    ["diff", ["diff"]],
  ])(
    "is refused by %s where it does not compile, with its line, a caret and a hint, and is not stored",
    async (_, command) => {
      const { code, stderr } = await kubectl(...command, "-f", file("wrong.yaml", named("wrong", WRONG)));
      expect(code).not.toBe(0);
      expect(stderr).toContain(REFUSED);
      expect((await kubectl("-n", "shop", "get", "vpol", "wrong")).stderr).toContain("NotFound");
    },
  );

  it("is refused by either replica, of which one leads", async () => {
    for (const port of [...ports].reverse()) {
      await askReplica(port);
      await untilRefused();
      expect((await tried(named("wrong", WRONG))).stderr).toContain(REFUSED);
    }
  });

  it("is stored without a word where it works", async () => {
    const { stderr } = await well("apply", "-f", file("good.yaml", named("good")));
    expect(stderr).toBe("");
  });

  it("is stored with a warning where it is hardly meant so", async () => {
    const reversed = named("reversed", "volume.usedRatio <= 0.8");
    const { stderr, stdout } = await well("apply", "-f", file("reversed.yaml", reversed));
    expect(stdout).toContain("reversed created");
    expect(stderr).toBe(
      "Warning: rule extend-at-80 extends while volume.usedRatio <= 0.8: is the comparison reversed?\n",
    );
  });

  it("says with an example how a size is written", async () => {
    const policy = aVolumePolicy({ limits: { max: "100GB" } }, { name: "sizes" });
    const { stderr } = await kubectl(
      "apply",
      "-f",
      file("sizes.yaml", { ...policy, metadata: { namespace: "shop", name: "sizes" } }),
    );
    expect(stderr).toContain("spec.limits.max: Invalid value:");
    expect(stderr).toContain("write a size in bytes, such as 500Mi or 10Gi");
    expect(stderr).not.toContain("should match");
  });

  it("is answered within 2 s while another namespace's editor applies the worst policies", async () => {
    const { metadata: _, ...rest } = worstPolicy("team", 0, "over");
    const worst = file("worst.yaml", { metadata: { namespace: "team", name: "worst" }, ...rest });
    const flood = Array.from({ length: 8 }, () => kubectl("apply", "--server-side", "--dry-run=server", "-f", worst));
    const sinceMs = performance.now();
    const { stderr } = await tried(named("wrong", WRONG));
    expect(performance.now() - sinceMs).toBeLessThan(ANSWER_LIMIT_MS + KUBECTL_MS);
    expect(stderr).toMatch(/does not compile|not checked in time/);
    for (const { code, stderr: said } of await Promise.all(flood))
      expect(code === 0 ? "was not checked in time" : said).toMatch(/does not compile|not checked in time/);
  });

  it("that got in while no policy-engine was there can be labelled, mended and deleted, and is not made worse", async () => {
    for (const engine of engines) await engine.kill();
    await well("apply", "-f", file("wrong.yaml", named("wrong", WRONG)));
    for (const engine of engines) engine.start();
    await untilRefused();
    await well("-n", "shop", "label", "vpol", "wrong", "seen=yes");
    const worse = await kubectl("apply", "-f", file("worse.yaml", named("wrong", `${WRONG} && true`)));
    expect(worse.stderr).toContain("does not compile");
    await well("apply", "-f", file("mended.yaml", named("wrong")));
    for (const engine of engines) await engine.kill();
    await well("apply", "-f", file("wrong.yaml", named("wrong", WRONG)));
    for (const engine of engines) engine.start();
    await untilRefused();
    await well("-n", "shop", "delete", "vpol", "wrong");
  });
});
