import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { createKubeClient } from "../../../../../src/platform/kube/client/http-client.ts";
import {
  type ClusterConnection,
  connectionOf,
  inClusterConnection,
  kubeconfigConnection,
  readConnectionSettings,
} from "../../../../../src/platform/kube/client/kube-config.ts";
import { directEffects } from "../../../../../src/platform/process/effects/effects.ts";
import { CONFIG_MAPS } from "../../../../builders/config-map.ts";
import { startTlsCluster, type TlsCluster } from "../../../../fakes/tls-cluster.ts";

let cluster: TlsCluster;

beforeEach(async () => {
  cluster = await startTlsCluster();
});

afterEach(async () => {
  jest.restoreAllMocks();
  await cluster.close();
});

function write(file: string, text: string, mode = 0o600): string {
  const path = join(cluster.directory, file);
  writeFileSync(path, text, { mode });
  return path;
}

function writeKubeconfig(user: object, clusterFields: object = { "certificate-authority": "ca.crt" }): string {
  const server = `https://${cluster.host}:${cluster.port}`;
  return write(
    "kubeconfig",
    JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      clusters: [
        { name: "here", cluster: { server, ...clusterFields } },
        { name: "plain", cluster: { server: "http://127.0.0.1:1" } },
      ],
      users: [{ name: "me", user }],
      contexts: [
        { name: "here", context: { cluster: "here", user: "me" } },
        { name: "plain", context: { cluster: "plain", user: "me" } },
      ],
      "current-context": "here",
    }),
  );
}

async function get(connection: ClusterConnection, times = 1): Promise<void> {
  const client = createKubeClient({ connection, effects: directEffects });
  try {
    for (let i = 0; i < times; i += 1) await client.get(CONFIG_MAPS, { namespace: "shop", name: "a" });
  } finally {
    await client.close();
  }
}

describe("in a pod", () => {
  it("trusts the cluster's authority only, and sends the token that kubelet last wrote", async () => {
    write("token", "first\n");
    const connection = inClusterConnection(cluster.host, String(cluster.port), cluster.directory);
    const client = createKubeClient({ connection, effects: directEffects });
    const name = { namespace: "shop", name: "a" };
    await client.get(CONFIG_MAPS, name);
    write("token", "second\n");
    const beforeMs = performance.now();
    jest.spyOn(performance, "now").mockImplementation(() => beforeMs + 11_000);
    await client.get(CONFIG_MAPS, name);
    await client.close();
    expect(cluster.seen).toEqual(["Bearer first / -", "Bearer second / -"]);
    expect(cluster.connections()).toBe(1);

    write("ca.crt", cluster.pem("other-ca.crt"));
    const wrong = inClusterConnection(cluster.host, String(cluster.port), cluster.directory);
    await expect(get(wrong)).rejects.toMatchObject({
      reason: "Unreachable",
      message: expect.stringContaining("certif"),
    });
  });

  it("puts an IPv6 address in brackets", () => {
    expect(inClusterConnection("fd00::1", "443").server).toBe("https://[fd00::1]:443");
  });

  it("fails the request, not the process, while there is no token", async () => {
    const connection = inClusterConnection(cluster.host, String(cluster.port), cluster.directory);
    await expect(get(connection)).rejects.toMatchObject({
      reason: "Unauthorized",
      message: expect.stringContaining("token"),
    });
    write("token", "late");
    await get(connection);
    expect(cluster.seen).toEqual(["Bearer late / -"]);
  });
});

describe("a kubeconfig", () => {
  it("authenticates with a client certificate, over kept connections", async () => {
    await get(
      await kubeconfigConnection(writeKubeconfig({ "client-certificate": "client.crt", "client-key": "client.key" })),
      20,
    );
    expect(new Set(cluster.seen)).toEqual(new Set(["- / client"]));
    expect(cluster.connections()).toBeLessThanOrEqual(2);
  });

  it("authenticates with a token, a password, or an exec plugin", async () => {
    const credential = {
      apiVersion: "client.authentication.k8s.io/v1",
      kind: "ExecCredential",
      status: { token: "t2" },
    };
    const plugin = write("plugin", `#!/bin/sh\necho '${JSON.stringify(credential)}'\n`, 0o700);
    await get(await kubeconfigConnection(writeKubeconfig({ token: "t1" })));
    await get(await kubeconfigConnection(writeKubeconfig({ username: "u", password: "p" })));
    await get(
      await kubeconfigConnection(
        writeKubeconfig({ exec: { apiVersion: credential.apiVersion, command: plugin, args: [] } }),
      ),
    );
    expect(cluster.seen).toEqual([
      "Bearer t1 / -",
      `Basic ${Buffer.from("u:p").toString("base64")} / -`,
      "Bearer t2 / -",
    ]);
  });

  it("does not check the server where it says so, and only there", async () => {
    await get(await kubeconfigConnection(writeKubeconfig({ token: "t" }, { "insecure-skip-tls-verify": true })));
    expect(cluster.seen).toHaveLength(1);
    const checked = await kubeconfigConnection(writeKubeconfig({ token: "t" }, {}));
    await expect(get(checked)).rejects.toMatchObject({ reason: "Unreachable" });
  });

  it("sends no credentials to a plain http server", async () => {
    const connection = await kubeconfigConnection(writeKubeconfig({ token: "secret" }), "plain");
    expect(connection).toEqual({ server: "http://127.0.0.1:1" });
  });

  it("names the contexts that there are when one is missing", async () => {
    await expect(kubeconfigConnection(writeKubeconfig({}), "elsewhere")).rejects.toThrow(
      'context "elsewhere" names no cluster; pick one of: here, plain',
    );
  });

  it("refuses a proxy that it cannot speak to", async () => {
    const file = writeKubeconfig({}, { "proxy-url": "socks5://127.0.0.1:1080" });
    await expect(kubeconfigConnection(file)).rejects.toThrow("socks5://127.0.0.1:1080 is not supported");
  });
});

describe("connectionOf", () => {
  const connect = (flags: Parameters<typeof readConnectionSettings>[0], environment: NodeJS.ProcessEnv = {}) =>
    connectionOf(readConnectionSettings(flags, environment));

  it("prefers an address over a kubeconfig over the pod's environment, and says what to give when there is none", async () => {
    const kubeconfig = writeKubeconfig({ token: "t" });
    const pod = { KUBERNETES_SERVICE_HOST: "10.0.0.1", KUBERNETES_SERVICE_PORT: "443" };
    expect((await connect({ server: "http://127.0.0.1:8001", kubeconfig }, pod)).server).toBe("http://127.0.0.1:8001");
    expect((await connect({ kubeconfig }, pod)).server).toBe(`https://127.0.0.1:${cluster.port}`);
    expect((await connect({}, pod)).server).toBe("https://10.0.0.1:443");
    await expect(connect({})).rejects.toThrow("give --server or --kubeconfig");
  });

  it("sends the token that is in a directory to the address beside it, and to none without TLS", async () => {
    const server = `https://${cluster.host}:${cluster.port}`;
    writeFileSync(join(cluster.directory, "token"), "t1");
    const connection = await connect({ server, credentials: cluster.directory });
    const inPod = inClusterConnection(cluster.host, String(cluster.port), cluster.directory);
    expect(await connection.credentials?.()).toEqual(await inPod.credentials?.());
    await expect(connect({ server: "http://127.0.0.1:8001", credentials: "/x" })).rejects.toThrow(
      "a token is sent to an https address only",
    );
    await expect(connect({ credentials: "/x" })).rejects.toThrow("give both");
  });
});
