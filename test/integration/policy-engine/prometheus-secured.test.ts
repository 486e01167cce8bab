// A real Prometheus that speaks TLS, wants a client's certificate, and a user with a password.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { freePort } from "../../../demo/show/run/free-port.ts";
import { createRunDirectory, removeRun } from "../../../demo/show/run/run-directory.ts";
import { systemClock } from "../../../src/platform/process/clock.ts";
import { createCommandPort } from "../../../src/platform/process/effects/command-port.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createPrometheusSource } from "../../../src/policy-engine/gather/prometheus/prometheus.ts";
import {
  connectToPrometheus,
  type PrometheusServer,
} from "../../../src/policy-engine/gather/prometheus/prometheus-server.ts";
import { startTlsCluster, type TlsCluster } from "../../fakes/tls-cluster.ts";
import { createPrometheus, type Prometheus } from "../../harness/prometheus.ts";
import { describeReal } from "../../harness/real-parts.ts";

const PASSWORD = "let me read";
/** Of the password, by bcrypt at its least cost. */
const PASSWORD_HASH = "$2b$04$GoIAnIgUZkJQRyqsEMntNOLdkr0vHiHd6KcCzdX2UiPwPvTfJGxsa";

describeReal("a Prometheus that asks who comes", ["prometheus"], () => {
  let base: string;
  let directory: string;
  let authority: TlsCluster;
  let prometheus: Prometheus;
  let known: PrometheusServer;

  beforeAll(async () => {
    base = mkdtempSync(join(tmpdir(), "prometheus-secured-"));
    directory = createRunDirectory(base);
    authority = await startTlsCluster();
    const at = (file: string): string => join(authority.directory, file);
    const webConfig = join(directory, "web.json");
    writeFileSync(
      webConfig,
      JSON.stringify({
        tls_server_config: {
          cert_file: at("server.crt"),
          key_file: at("server.key"),
          client_auth_type: "RequireAndVerifyClientCert",
          client_ca_file: at("ca.crt"),
        },
        basic_auth_users: { tidemark: PASSWORD_HASH },
      }),
    );
    prometheus = await createPrometheus(directory, await freePort(), [], webConfig);
    await prometheus.start();
    known = {
      url: prometheus.url,
      user: "tidemark",
      passwordFile: secret("password", `${PASSWORD}\n`),
      caFile: at("ca.crt"),
      certificateFile: at("client.crt"),
      keyFile: at("client.key"),
    };
  });
  afterAll(async () => {
    await removeRun(directory, createCommandPort(directEffects));
    await authority.close();
    rmSync(base, { recursive: true });
  });

  function secret(name: string, text: string): string {
    const file = join(directory, name);
    writeFileSync(file, text);
    return file;
  }

  async function ask(server: PrometheusServer) {
    const source = createPrometheusSource(connectToPrometheus(server), 1000, systemClock);
    return source.readings().finally(() => source.close());
  }

  it("answers who shows a certificate and a password that it knows", async () => {
    expect((await ask(known)).byClaim.size).toBe(0);
  });

  it.each<[string, () => Partial<PrometheusServer>, RegExp]>([
    ["the password is another", () => ({ passwordFile: secret("wrong", "guess") }), /^status 401 to /],
    ["no certificate is shown", () => ({ certificateFile: undefined, keyFile: undefined }), /^no answer to /],
    [
      "its certificate is of another authority than ours",
      () => ({ caFile: join(authority.directory, "other-ca.crt") }),
      /^no answer to .*certificate/,
    ],
    ["the authorities of the system do not know it", () => ({ caFile: undefined }), /^no answer to .*certificate/],
  ])("gives no answer where %s, and the error shows no secret", async (_what, other, message) => {
    const asked = ask({ ...known, ...other() });
    await expect(asked).rejects.toThrow(message);
    await expect(asked).rejects.not.toThrow(new RegExp(PASSWORD));
  });
});
