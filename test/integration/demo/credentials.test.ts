// The embedded control plane as a user's processes meet it, and as another user of the same machine does, who can reach loopback too.
import { execFile } from "node:child_process";
import { lstatSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:https";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { NAMESPACES } from "../../../src/contracts/kubernetes/resources.ts";
import { createKubeClient } from "../../../src/platform/kube/client/http-client.ts";
import {
  type ClusterConnection,
  connectionOf,
  readConnectionSettings,
} from "../../../src/platform/kube/client/kube-config.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { type BundleProcess, createBundleProcess, DEMO_PATH } from "../../harness/bundle-process.ts";
import { hasKubectl } from "../../harness/kustomize.ts";

const NOBODY = 65_534;
const run = promisify(execFile);
const isRoot = process.getuid?.() === 0;
if (!isRoot) process.stderr.write("NOT TESTED: without root nothing can be run as another user\n");
const itAsRoot = isRoot ? it : it.skip;
const itWithKubectl = hasKubectl() ? it : it.skip;

interface Answer {
  readonly code: number | undefined;
  readonly body: string;
}

describe("the embedded control plane of the bundle", () => {
  let directory: string;
  let standalone: BundleProcess;
  let server: string;
  const inApi = (name: string): string => join(directory, "api", name);

  const start = async (): Promise<void> => {
    standalone.start();
    server = (JSON.parse(await standalone.firstLine()) as { server: string }).server;
  };
  beforeAll(async () => {
    directory = mkdtempSync("/var/tmp/tidemark-credentials-");
    const sockets = ["--operator-socket", join(directory, "o.sock"), "--kubelet-directory", join(directory, "kubelet")];
    const flags = ["standalone", "--port", "0", "--write-credentials", join(directory, "api"), ...sockets];
    standalone = createBundleProcess(directory, "standalone", flags, DEMO_PATH);
    // As somebody may have left it, or made it in advance.
    mkdirSync(inApi(""), { mode: 0o755 });
    writeFileSync(inApi("token"), "", { mode: 0o644 });
    await start();
  });
  afterAll(async () => {
    await standalone.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  const ask = (path: string, headers: Record<string, string> = {}): Promise<Answer> =>
    new Promise((resolve, reject) => {
      // Named, since Node.js would take the name from the header Host.
      const servername = "standalone.tidemark.dev";
      const options = { headers, agent: false, servername, ca: readFileSync(inApi("ca.crt")) };
      get(`${server}${path}`, options, (response) => {
        let body = "";
        response.on("data", (chunk: Buffer) => (body += chunk.toString()));
        response.on("end", () => resolve({ code: response.statusCode, body }));
      }).once("error", reject);
    });
  const bearer = (): Record<string, string> => ({ authorization: `Bearer ${readFileSync(inApi("token"), "utf8")}` });
  const namespaces = async (connection: ClusterConnection): Promise<string[]> => {
    const client = createKubeClient({ connection, effects: directEffects });
    try {
      return (await client.list(NAMESPACES)).items.map(({ metadata }) => metadata.name);
    } finally {
      await client.close();
    }
  };

  it.each([
    ["no token", {}],
    ["another token", { authorization: "Bearer AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }],
    ["a password", { authorization: "Basic YWRtaW46YWRtaW4=" }],
  ])("answers 401 as kube-apiserver does to a request with %s", async (_, headers: Record<string, string>) => {
    for (const path of ["/api/v1/secrets", "/apis", "/openapi/v3", "/version", "/nothing", "/api/v1/pods?watch=true"]) {
      const { code, body } = await ask(path, headers);
      expect(code).toBe(401);
      expect(JSON.parse(body)).toEqual({
        ...{ kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure" },
        ...{ message: "Unauthorized", reason: "Unauthorized", code: 401 },
      });
    }
  });

  it("answers the probes to all, and nothing whose path begins as theirs", async () => {
    for (const path of ["/healthz", "/livez", "/readyz?verbose"]) expect((await ask(path)).code).toBe(200);
    for (const path of ["/healthz/../api/v1/secrets", "/healthzx", "//healthz"])
      expect((await ask(path)).code).toBe(401);
  });

  it("refuses a web page also with the token", async () => {
    for (const headers of [{ origin: "https://example.com" }, { host: "example.com" }] as Record<string, string>[])
      expect((await ask("/api/v1/namespaces", { ...bearer(), ...headers })).code).toBe(403);
  });

  it("keeps token and kubeconfig for their owner alone", () => {
    expect(lstatSync(inApi("")).mode & 0o777).toBe(0o700);
    for (const name of ["token", "config", "ca.crt"]) expect(lstatSync(inApi(name)).mode & 0o777).toBe(0o600);
    expect(Buffer.from(readFileSync(inApi("token"), "utf8"), "base64url")).toHaveLength(32);
  });

  itAsRoot("lets another user of the machine neither read the token nor the API", async () => {
    const asAnother = { uid: NOBODY, gid: NOBODY, cwd: "/" };
    for (const name of ["token", "config"])
      await expect(run("/usr/bin/cat", [inApi(name)], asAnother)).rejects.toThrow("Permission denied");
    const script = `process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
      fetch("${server}/api/v1/namespaces").then(({ status }) => console.log(status));`;
    const { stdout } = await run(process.execPath, ["--no-warnings", "-e", script], asAnother);
    expect(stdout.trim()).toBe("401");
  });

  it("is reached by --credentials and by the kubeconfig", async () => {
    const byFlags = await connectionOf(readConnectionSettings({ server, credentials: inApi("") }, {}));
    const byFile = await connectionOf(readConnectionSettings({ kubeconfig: inApi("config") }, {}));
    for (const connection of [byFlags, byFile]) expect(await namespaces(connection)).toContain("default");
    await expect(
      namespaces({ ...byFlags, credentials: async () => ({ headers: {}, tls: { insecure: true } }) }),
    ).rejects.toThrow("Unauthorized");
  });

  itWithKubectl("is reached by the kubectl that the demo shows", async () => {
    const environment = { PATH: process.env["PATH"], HOME: directory, KUBECONFIG: inApi("config") };
    const { stdout } = await run("kubectl", ["get", "fs", "--ignore-not-found"], { env: environment });
    expect(stdout).toBe("");
    expect((await run("kubectl", ["get", "storageclasses"], { env: environment })).stdout).toContain("tidemark-loop");
  });

  it("has another token after each start", async () => {
    const former = bearer();
    await standalone.stop();
    await start();
    expect((await ask("/api/v1/namespaces", former)).code).toBe(401);
    expect((await ask("/api/v1/namespaces", bearer())).code).toBe(200);
  });
});
